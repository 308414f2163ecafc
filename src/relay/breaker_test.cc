#include "relay/breaker.h"

#include <gtest/gtest.h>

namespace waybill {
namespace {

using namespace std::chrono_literals;

class BreakerTest : public testing::Test {
 protected:
  bool reject() { return breaker_.rejected(now_, 0.5, "no"); }
  bool fail(std::uint64_t key) { return breaker_.failed(key, now_, 0.5, "timeout"); }
  void try_again() {
    now_ = breaker_.next_try();
    breaker_.try_now();
  }

  Breaker breaker_;
  Steady now_{1'000s};
};

TEST_F(BreakerTest, Row48_OpensForAnOutageAndTriesAtGrowingIntervals) {
  EXPECT_EQ(1'000U, breaker_.allowance(1'000));
  Steady::duration last{};
  for (int i = 0; i < 10; ++i) {
    breaker_.unavailable(now_, 0.5, "away");
    EXPECT_TRUE(breaker_.open());
    EXPECT_EQ(0U, breaker_.allowance(1'000));
    EXPECT_GE(breaker_.next_try() - now_, last);
    EXPECT_LE(breaker_.next_try() - now_, 4s);
    last = breaker_.next_try() - now_;
    try_again();
    EXPECT_EQ(1U, breaker_.allowance(1'000));
  }
  EXPECT_EQ("away", breaker_.reason());
}

TEST_F(BreakerTest, RampsUp) {
  breaker_.unavailable(now_, 0.5, "away");
  try_again();
  for (std::size_t expected = 2; expected <= 512; expected *= 2) {
    breaker_.delivered();
    EXPECT_EQ(expected, breaker_.allowance(10'000));
  }
  breaker_.delivered();
  EXPECT_EQ(10'000U, breaker_.allowance(10'000));
}

// What rejects everything is not the events' fault.
TEST_F(BreakerTest, Row46_BlamesTheDestinationAfterTwentyRejectionsInARow) {
  for (int i = 0; i < Breaker::rejections_max; ++i) EXPECT_TRUE(reject());
  EXPECT_FALSE(breaker_.open());
  EXPECT_FALSE(reject());
  EXPECT_TRUE(breaker_.open());
  for (int i = 0; i < 50; ++i) {
    try_again();
    EXPECT_FALSE(reject());
  }
  try_again();
  breaker_.delivered();
  EXPECT_TRUE(reject());
}

TEST_F(BreakerTest, RejectionsWithDeliveriesBetweenAreTheEventsOwn) {
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(reject());
    if (i % 10 == 0) breaker_.delivered();
  }
  EXPECT_FALSE(breaker_.open());
}

TEST_F(BreakerTest, BlamesTheDestinationWhenMostEventsOfManyKeysFail) {
  int guilty = 0;
  for (std::uint64_t key = 1; key <= 100; ++key)
    if (!breaker_.open() && fail(key)) ++guilty;
  EXPECT_TRUE(breaker_.open());
  EXPECT_LT(guilty, 60);
  try_again();
  EXPECT_FALSE(fail(1));
}

TEST_F(BreakerTest, FewKeysThatFailAreTheirOwnFault) {
  for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(fail(static_cast<std::uint64_t>(i % 5)));
  EXPECT_FALSE(breaker_.open());
}

TEST_F(BreakerTest, AFewFailuresAmongManyDeliveriesAreNothing) {
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    breaker_.delivered();
    if (i % 10 == 0) {
      EXPECT_TRUE(fail(i));
    }
  }
  EXPECT_FALSE(breaker_.open());
}

}  // namespace
}  // namespace waybill
