#include "net/expiry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace waybill::net {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const Time now{1'000'000s};

TEST(ExpiryTest, TellsWhatWasNotedLast) {
  Expiry expiry;
  EXPECT_EQ(std::nullopt, expiry.until());
  expiry.note(now);
  EXPECT_EQ(now, expiry.until());
  expiry.note(std::nullopt);
  EXPECT_EQ(std::nullopt, expiry.until());
}

TEST(ExpiryTest, TwoWeeksBeforeIsSoon) {
  const ExpiryAdvice good = advise_on_expiry(now + std::chrono::days(14), now);
  EXPECT_FALSE(good.soon);
  EXPECT_THAT(good.text, HasSubstr("in 14 days"));
  EXPECT_EQ("", good.remedy);
  const ExpiryAdvice bad = advise_on_expiry(now + std::chrono::days(14) - 1s, now);
  EXPECT_TRUE(bad.soon);
  EXPECT_THAT(bad.text, HasSubstr("in 13 days"));
  EXPECT_THAT(bad.remedy, HasSubstr("renew"));
}

}  // namespace
}  // namespace waybill::net
