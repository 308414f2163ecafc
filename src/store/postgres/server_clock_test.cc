#include "store/postgres/server_clock.h"

#include <gtest/gtest.h>

namespace waybill {
namespace {

using namespace std::chrono_literals;

constexpr Steady start{100s};
constexpr Time noon{1'800'000'000s};

TEST(ServerClock, CountsOnFromWhatItWas) {
  ServerClock clock;
  EXPECT_FALSE(clock.known());
  clock.was(noon, start, start);
  EXPECT_EQ(noon, clock.at(start));
  EXPECT_EQ(noon + 90min, clock.at(start + 90min));
}

TEST(ServerClock, ASlowRoundTripMakesNothingWorse) {
  ServerClock clock;
  clock.was(noon, start, start + 1ms);
  clock.was(noon + 10s, start + 9s, start + 20s);
  EXPECT_EQ(noon + 30s - 1ms, clock.at(start + 30s));
}

TEST(ServerClock, AFasterRoundTripMakesItBetter) {
  ServerClock clock;
  clock.was(noon, start, start + 5s);  // Behind by up to 5 s.
  clock.was(noon + 10s, start + 10s, start + 10s + 2ms);
  EXPECT_EQ(noon + 20s - 2ms, clock.at(start + 20s));
}

TEST(ServerClock, FollowsAClockThatIsSet) {
  ServerClock clock;
  clock.was(noon, start, start);
  clock.was(noon - 1h, start + 1s, start + 1s);
  EXPECT_EQ(noon - 1h, clock.at(start + 1s));
  clock.was(noon + 2h, start + 2s, start + 2s);
  EXPECT_EQ(noon + 2h, clock.at(start + 2s));
}

}  // namespace
}  // namespace waybill
