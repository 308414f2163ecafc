#include "relay/pace.h"

#include <gtest/gtest.h>

namespace waybill {
namespace {

using namespace std::chrono_literals;

class PaceTest : public testing::Test {
 protected:
  // Looks for a second while so many events come; how many looks it took.
  int live(double events_per_second) {
    int looks = 0;
    double waiting = 0;
    for (const Steady end = now_ + 1s; now_ < end; ++looks) {
      const Steady next = std::max(pace_.next(), now_);
      waiting += events_per_second * std::chrono::duration<double>(next - now_).count();
      now_ = next;
      const auto events = static_cast<std::size_t>(waiting);
      waiting -= static_cast<double>(events);
      pace_.looked(events, false, now_);
    }
    return looks;
  }

  Pace pace_;
  Steady now_{1'000s};
};

TEST_F(PaceTest, AThousandEventsASecondAreReadAtOnce) {
  live(1'000);
  EXPECT_GT(live(1'000), 900);
}

TEST_F(PaceTest, ManyEventsAreReadTogether) {
  live(6'000);
  EXPECT_LE(live(6'000), 51);
  live(3'000);
  const int looks = live(3'000);
  EXPECT_GT(looks, 100);
  EXPECT_LT(looks, 200);
}

TEST_F(PaceTest, AfterARushItIsSoonBrisk) {
  live(100'000);
  live(100);
  EXPECT_GT(live(100), 900);
}

TEST_F(PaceTest, Row31_ABacklogIsReadWithoutAPause) {
  pace_.looked(1'000, true, now_);
  EXPECT_EQ(now_, pace_.next());
}

TEST_F(PaceTest, ALongSilenceIsForgotten) {
  live(100'000);
  now_ += 1h;
  pace_.looked(1, false, now_);
  EXPECT_EQ(now_ + Pace::pause_min, pace_.next());
}

}  // namespace
}  // namespace waybill
