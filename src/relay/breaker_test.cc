#include "relay/breaker.h"

#include <array>

#include <gtest/gtest.h>

namespace waybill {
namespace {

using namespace std::chrono_literals;

class BreakerTest : public testing::Test {
 protected:
  bool reject(const char* tenant, const char* topic) {
    return breaker_.rejected({.event = ++event_, .tenant = tenant, .topic = topic}, now_, 0.5, "no");
  }
  bool fail(std::uint64_t key, const char* tenant, const char* topic) {
    return breaker_.failed({.event = ++event_, .tenant = tenant, .topic = topic}, key, now_, 0.5, "timeout");
  }
  // Of any tenant and topic.
  bool reject() { return breaker_.rejected(any(), now_, 0.5, "no"); }
  bool fail(std::uint64_t key) { return breaker_.failed(any(), key, now_, 0.5, "timeout"); }
  Breaker::Source any() {
    static constexpr std::string_view names = "abcdefghijklmnopqrstuvwxyz";
    const auto number = static_cast<std::size_t>(++event_);
    return {.event = event_, .tenant = names.substr(number % 26, 1), .topic = names.substr(number * 7 % 26, 1)};
  }
  bool admits(const char* tenant, const char* topic) {
    return breaker_.admits({.event = ++event_, .tenant = tenant, .topic = topic}, true, now_);
  }
  void try_again() {
    now_ = breaker_.next_try();
    breaker_.try_now();
  }

  Breaker breaker_;
  Steady now_{1'000s};
  std::int64_t event_ = 0;
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

// A flood of one producer's bad events delays no other producer, and at most twenty of them are buried.
TEST_F(BreakerTest, Row46_SuspectsOnlyTheTenantAndTopicThatFail) {
  for (int i = 0; i < Breaker::rejections_max; ++i) EXPECT_TRUE(reject("bad", "x"));
  EXPECT_FALSE(reject("bad", "x"));
  EXPECT_FALSE(breaker_.open());
  EXPECT_EQ(1'000U, breaker_.allowance(1'000));
  EXPECT_FALSE(admits("bad", "x"));
  EXPECT_TRUE(admits("bad", "y"));
  EXPECT_TRUE(admits("good", "x"));
  EXPECT_NE(std::string::npos, breaker_.reason().find("events of topic 'x' of tenant 'bad'"));
  now_ = breaker_.next_try();
  EXPECT_TRUE(admits("bad", "x")) << "one, as a try";
  EXPECT_FALSE(admits("bad", "x"));
  EXPECT_FALSE(reject("bad", "x"));
  EXPECT_FALSE(admits("bad", "x"));
  breaker_.delivered();
  EXPECT_TRUE(breaker_.closed());
  EXPECT_TRUE(reject("bad", "x")) << "where others are delivered, it is the event's own fault";
}

TEST_F(BreakerTest, Row46_SuspicionWidensUntilItIsTheDestinations) {
  for (int i = 0; i <= Breaker::rejections_max; ++i) reject("bad", "x");
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(reject("bad", "y")) << "no more is buried";
  EXPECT_TRUE(admits("bad", "y")) << "two may be strays";
  EXPECT_FALSE(reject("bad", "y"));
  EXPECT_FALSE(admits("bad", "y"));
  EXPECT_TRUE(admits("bad", "z"));
  constexpr std::array others{"a", "b", "c", "d", "e", "f"};
  for (int i = 0; i < 18; ++i) EXPECT_FALSE(reject("bad", others[i % 6]));
  EXPECT_FALSE(admits("bad", "z")) << "now it is the whole tenant";
  EXPECT_TRUE(admits("good", "x"));
  for (int i = 0; i < 18; ++i) EXPECT_FALSE(reject(others[i % 6], others[(i + i / 6) % 6]));
  EXPECT_TRUE(breaker_.open());
  EXPECT_EQ(0U, breaker_.allowance(1'000));
}

TEST_F(BreakerTest, Row46_SuspectsAFewTenantsAtOnce) {
  for (int i = 0; i <= Breaker::rejections_max; ++i) reject(i % 2 == 0 ? "bad" : "worse", i % 2 == 0 ? "x" : "y");
  EXPECT_FALSE(breaker_.open());
  EXPECT_FALSE(admits("bad", "x"));
  EXPECT_FALSE(admits("worse", "y"));
  EXPECT_TRUE(admits("bad", "y"));
  EXPECT_TRUE(admits("good", "x"));
  EXPECT_NE(std::string::npos,
            breaker_.reason().find("events of topic 'x' of tenant 'bad' and of topic 'y' of tenant 'worse' fail"));
}

TEST_F(BreakerTest, OneEventThatFailsAgainAndAgainIsOneStray) {
  for (int i = 0; i <= Breaker::rejections_max; ++i) reject("bad", "x");
  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(breaker_.rejected({.event = 1'000'000, .tenant = "good", .topic = "y"}, now_, 0.5, "no"));
  EXPECT_FALSE(breaker_.open());
  EXPECT_TRUE(admits("good", "y"));
}

TEST_F(BreakerTest, SuspectsTheTopicThatFailsForAllTenants) {
  constexpr std::array tenants{"a", "b", "c", "d", "e", "f"};
  for (std::uint64_t key = 1; key <= 60; ++key) fail(key, tenants[key % 6], "x");
  EXPECT_FALSE(breaker_.open());
  EXPECT_FALSE(admits("g", "x"));
  EXPECT_TRUE(admits("a", "y"));
}

TEST_F(BreakerTest, ATryThatIsNeverAnsweredIsFollowedByAnother) {
  for (int i = 0; i <= Breaker::rejections_max; ++i) reject("bad", "x");
  for (int i = 0; i < 5; ++i) {
    now_ = breaker_.next_try();
    EXPECT_TRUE(admits("bad", "x"));
  }
}

TEST_F(BreakerTest, TooManySuspectsMeanThatTheDestinationIsAway) {
  for (int i = 0; i <= Breaker::rejections_max; ++i) reject("bad", "x");
  const auto wait = breaker_.set_aside_for(0.5);
  for (std::size_t i = 0; i < Breaker::set_aside_max; ++i) EXPECT_FALSE(admits("bad", "x"));
  EXPECT_FALSE(breaker_.open());
  EXPECT_GT(breaker_.set_aside_for(0.5), 5 * wait) << "the more there are, the less often each is looked at";
  EXPECT_FALSE(admits("bad", "x"));
  EXPECT_TRUE(breaker_.open());
}

}  // namespace
}  // namespace waybill
