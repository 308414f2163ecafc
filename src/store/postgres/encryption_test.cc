#include "store/postgres/encryption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace waybill {
namespace {

using testing::HasSubstr;

TEST(PgEncryption, Security21_IsWantedOffThisMachine) {
  for (const char* mode : {"disable", "allow", "prefer", "require", "verify-ca"}) {
    const auto found = examine_encryption({.host = "db", .address = "10.0.0.7", .sslmode = mode, .encrypted = true});
    ASSERT_TRUE(found) << mode;
    EXPECT_EQ(Finding::Level::warning, found->level);
    EXPECT_THAT(found->text, HasSubstr(std::string("it is '") + mode + "': the connection to 'db' is encrypted, but"));
    EXPECT_THAT(found->remedy, HasSubstr("sslmode=verify-full"));
  }
  const auto plain = examine_encryption({.host = "db", .address = "fe80::1", .sslmode = "prefer"});
  ASSERT_TRUE(plain);
  EXPECT_THAT(plain->text, HasSubstr("not encrypted"));
}

TEST(PgEncryption, IsGoodEnough) {
  EXPECT_FALSE(examine_encryption({.host = "db", .address = "10.0.0.7", .sslmode = "verify-full", .encrypted = true}));
  EXPECT_FALSE(examine_encryption({.host = "localhost", .address = "127.0.0.1", .sslmode = "prefer"}));
  EXPECT_FALSE(examine_encryption({.host = "ip6", .address = "::1", .sslmode = "disable"}));
  EXPECT_FALSE(examine_encryption({.host = "/var/run/postgresql", .address = "", .sslmode = "prefer"}));
}

}  // namespace
}  // namespace waybill
