#include "waybill/idempotency.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace waybill {
namespace {

using namespace std::chrono_literals;

TEST(Fingerprint, IsOfEveryPartInItsPlace) {
  const std::set<std::string> all{fingerprint({"POST", "/orders", "{}"}),
                                  fingerprint({"POST", "/orders{}", ""}),
                                  fingerprint({"POST/orders", "{}"}),
                                  fingerprint({"PUT", "/orders", "{}"}),
                                  fingerprint({"POST", "/orders", "{ }"}),
                                  fingerprint({}),
                                  fingerprint({""}),
                                  fingerprint({"", ""})};
  EXPECT_EQ(8U, all.size());
  EXPECT_EQ(64U, all.begin()->size());
  EXPECT_EQ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", fingerprint({}))
      << "as stored by others";
  EXPECT_EQ(fingerprint({"POST", std::string("\0", 1)}), fingerprint({"POST", std::string("\0", 1)}));
}

TEST(IdempotencyKeysOptions, AreHeldToTheirLimits) {
  EXPECT_NO_THROW(IdempotencyKeys({.kept = 1s, .wait = 1min}));
  for (const IdempotencyKeys::Options& wrong :
       {IdempotencyKeys::Options{.schema = "no\"body"}, IdempotencyKeys::Options{.kept = 0s},
        IdempotencyKeys::Options{.kept = 24h * 3651}, IdempotencyKeys::Options{.wait = -1ms},
        IdempotencyKeys::Options{.wait = 61s}}) {
    try {
      const IdempotencyKeys keys(wrong);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::fix_config, error.remedy());
    }
  }
}

}  // namespace
}  // namespace waybill
