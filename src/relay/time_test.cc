// Time that is not what it seems: pauses at the worst moment, and clocks that are wrong.
#include <functional>

#include "relay/failure_test.h"

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Stands still once, after the relay has made sure of its lease and before the event goes.
class PausesBeforeSending final : public Sink {
 public:
  PausesBeforeSending(ScriptedSink::Script& script, std::function<void()> pause)
      : sink_(script), pause_(std::move(pause)) {}
  void submit(const EventView& event, std::uint64_t ticket) override {
    if (const auto pause = std::exchange(pause_, {})) pause();
    sink_.submit(event, ticket);
  }
  void collect(std::vector<Outcome>& outcomes, Steady deadline) override { sink_.collect(outcomes, deadline); }

 private:
  ScriptedSink sink_;
  std::function<void()> pause_;
};

class TimeTest : public FailureTest {
 protected:
  std::unique_ptr<Relay> relay(const Clock& clock, std::unique_ptr<Sink> sink, RetryPolicy retry = {}) {
    auto made = std::make_unique<Relay>(*store_, RelayOptions{.lease = 5s}, Log{}, clock);
    made->add({.name = "out", .retry = retry}, std::move(sink));
    return made;
  }
  void together(std::initializer_list<Relay*> relays, std::chrono::milliseconds time) {
    for (const Steady end = clock_.steady() + time; clock_.steady() < end; clock_.advance(10ms))
      for (Relay* relay : relays) relay->step();
  }
};

// 74: by the time it is sent, a successor has sent it and all that follows: it comes twice, first deliveries in order.
TEST_F(TimeTest, Row74_PausedBetweenTheLeaseAndTheSendItRepeatsButOvertakesNothing) {
  store_ = memory_store({.shards = 1}, clock_);
  for (const char* name : {"1", "2", "3"}) enqueue("a", name);
  std::unique_ptr<Relay> heir;
  const auto zombie = relay(clock_, std::make_unique<PausesBeforeSending>(script_, [&] {
                              clock_.advance(15s);  // Three leases.
                              heir = relay(clock_, std::make_unique<ScriptedSink>(script_));
                              together({heir.get()}, 2s);
                              EXPECT_THAT(script_.delivered, ElementsAre("1", "2", "3"));
                            }));
  together({zombie.get()}, 1s);
  ASSERT_TRUE(heir);
  together({zombie.get(), heir.get()}, 1min);
  EXPECT_THAT(script_.attempted, ElementsAre("1", "2", "3", "1")) << "and not the second, before or after";
  EXPECT_EQ(0, store_->inspector()->status().destinations.at(0).pending.value);
  EXPECT_THAT(store_->inspector()->undelivered({}).events, IsEmpty());
}

// 76: the store's clock is what leases and waits are counted by; whoever else's is wrong hurts nobody.
class WrongClockTest : public TimeTest, public testing::WithParamInterface<std::chrono::hours> {
 protected:
  // As the store's, but for the time of day.
  class WrongClock final : public Clock {
   public:
    WrongClock(const Clock& clock, std::chrono::hours wrong) : clock_(clock), wrong_(wrong) {}
    Time now() const override { return clock_.now() + wrong_; }
    Steady steady() const override { return clock_.steady(); }
    Steady since_boot() const override { return clock_.since_boot(); }

   private:
    const Clock& clock_;
    const std::chrono::hours wrong_;
  };
  WrongClock wrong_{clock_, GetParam()};
};

TEST_P(WrongClockTest, Row76_LeasesStayWhereTheyAreAndRetriesKeepTheirPace) {
  const RetryPolicy retry{.first_delay = 60s, .max_delay = 60s};
  const auto right = relay(clock_, std::make_unique<ScriptedSink>(script_), retry);
  const auto wrong = relay(wrong_, std::make_unique<ScriptedSink>(script_), retry);
  together({right.get(), wrong.get()}, 10s);
  EXPECT_EQ(1U, right->counts("out").leases);
  EXPECT_EQ(1U, wrong->counts("out").leases);
  for (int key = 1; key <= 6; ++key) {  // Some on each shard.
    script_.next[std::to_string(key)] = {Kind::retry};
    enqueue(std::to_string(key), std::to_string(key));
    enqueue(std::to_string(key), std::to_string(key + 10));
  }
  together({right.get(), wrong.get()}, 70s);
  EXPECT_EQ(12U, script_.delivered.size()) << "no retry waits for the other clock's hour";
  EXPECT_EQ(18U, script_.attempted.size()) << "and none comes early or more often";
  EXPECT_EQ(1U, right->counts("out").leases);
  EXPECT_EQ(1U, wrong->counts("out").leases);
  EXPECT_THAT(store_->inspector()->undelivered({}).events, IsEmpty());
}

TEST_P(WrongClockTest, Row76_EventsExpireAndFallDueByTheStoresClock) {
  const auto relay = this->relay(wrong_, std::make_unique<ScriptedSink>(script_));
  script_.next["1"] = {Kind::retry};
  Event good = event("a", "1");
  good.expires_at = clock_.now() + 30min;
  Event late = event("b", "2");
  late.expires_at = clock_.now() - 1s;
  Event scheduled = event("c", "3");
  scheduled.not_before = clock_.now() + 30min;
  for (const Event& each : {good, late, scheduled}) enqueue(each);
  together({relay.get()}, 20s);
  EXPECT_THAT(script_.delivered, ElementsAre("1"));
  EXPECT_THAT(standing(Standing::expired), ElementsAre("2"));
  EXPECT_THAT(standing(Standing::scheduled), ElementsAre("3"));
  clock_.advance(30min - 30s);
  together({relay.get()}, 5s);
  EXPECT_THAT(script_.delivered, ElementsAre("1"));
  together({relay.get()}, 10s);
  EXPECT_THAT(script_.delivered, ElementsAre("1", "3"));
}

INSTANTIATE_TEST_SUITE_P(ByHours, WrongClockTest,
                         testing::Values(1h, -1h, 24h * 366 * 13 /* past 2038 */, -24h * 366 * 50));

// 76: all clocks are set at once, as a server's administrator would: nobody is rescued early, nothing is sent twice.
TEST_F(TimeTest, Row76_ASetWallClockMakesNoStorm) {
  start({.retry = {.first_delay = 60s, .max_delay = 60s}});
  go();
  int name = 0;
  for (const std::chrono::hours by : {1h, -2h, 24h * 366 * 13, -24h * 366 * 13}) {
    const std::string first = std::to_string(++name);
    script_.next[first] = {Kind::retry};
    enqueue("a", first);
    go(100ms);
    clock_.set(by);
    enqueue("a", std::to_string(++name));
    go(5min);
    EXPECT_EQ(2U, relay_->counts("out").leases);
  }
  EXPECT_THAT(script_.delivered, ElementsAre("1", "2", "3", "4", "5", "6", "7", "8"));
  EXPECT_EQ(12U, script_.attempted.size());
}

}  // namespace
}  // namespace waybill
