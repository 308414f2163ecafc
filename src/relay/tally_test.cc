#include "relay/tally.h"

#include <gtest/gtest.h>

#include "waybill/store.h"
#include "waybill/testing.h"

#include "relay/context.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

TEST(TallyTest, LatencyCountsFromWhenAnEventCouldGo) {
  const ManualClock clock;
  Tally tally;
  const EventView late{.created_at = clock.now() - 3s};
  const EventView scheduled{.created_at = clock.now() - 24h, .not_before = clock.now() - 20ms};
  const EventView from_a_faster_clock{.created_at = clock.now() + 1s};
  for (const EventView* event : {&late, &scheduled, &from_a_faster_clock}) tally.delivered(event, clock.now());
  tally.delivered(nullptr, clock.now());
  const RelayCounts counts = tally.counts(0);
  EXPECT_EQ(4U, counts.delivered);
  EXPECT_EQ(3U, counts.latency.count);
  EXPECT_EQ(3'020ms, counts.latency.sum);
  EXPECT_EQ(0us, counts.lag);
  std::uint64_t within_a_second = 0;
  for (const auto& bucket : counts.latency.buckets)
    if (bucket.upto <= 1s) within_a_second += bucket.count;
  EXPECT_EQ(2U, within_a_second);
}

TEST(TallyTest, AReasonIsCutBetweenCharacters) {
  const ManualClock clock;
  Breaker breaker;
  std::string reason(trouble_bytes_max - 1, 'x');
  breaker.unavailable(clock.steady(), 0.5, reason + "\u00e9");
  Tally tally;
  tally.show(breaker, clock);
  EXPECT_EQ(reason, tally.trouble());
}

TEST(TallyTest, AReasonIsATextThatAnyStoreTakes) {
  const ManualClock clock;
  Breaker breaker;
  breaker.unavailable(clock.steady(), 0.5, std::string("no \xFF\0 route", 11));
  Tally tally;
  tally.show(breaker, clock);
  EXPECT_EQ("no ?? route", tally.trouble());
}

TEST(TallyTest, ADestinationThatSaysNothingIsStillSeenToBeAway) {
  const ManualClock clock;
  Breaker breaker;
  breaker.unavailable(clock.steady(), 0.5, "");
  Tally tally;
  tally.show(breaker, clock);
  EXPECT_NE("", tally.trouble());
  breaker.try_now();
  tally.show(breaker, clock);
  EXPECT_NE("", tally.trouble());
  breaker.delivered();
  tally.show(breaker, clock);
  EXPECT_EQ("", tally.trouble());
}

TEST(VitalsTest, AliveWhileItsThreadsTurn) {
  ManualClock clock;
  Vitals vitals;
  const auto alive = [&] { return vitals.read(clock.steady(), 5s).alive(); };
  EXPECT_TRUE(alive());  // Nothing runs, so nothing hangs.
  vitals.start(clock.steady());
  EXPECT_TRUE(alive());
  clock.advance(14s);
  vitals.beat(clock.steady());
  clock.advance(14s);
  EXPECT_TRUE(alive());
  clock.advance(1s);
  EXPECT_FALSE(alive());

  vitals.store_away();
  vitals.turned(clock.steady());
  EXPECT_TRUE(alive());
  clock.advance(70s);
  EXPECT_TRUE(alive());
  clock.advance(10s);
  EXPECT_FALSE(alive());
  vitals.stop();
  EXPECT_TRUE(alive());
}

}  // namespace
}  // namespace waybill
