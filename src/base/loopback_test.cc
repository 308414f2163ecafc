#include "base/loopback.h"

#include <gtest/gtest.h>

namespace waybill {
namespace {

TEST(Loopback, IsKnownByNameAndAddress) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.10", "::1"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"", "db", "0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "127.0.0.1.example", "[::1]", "127.1"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace waybill
