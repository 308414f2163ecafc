// Brokers as they fail: what the engine does about it, whichever sink tells. The sinks' own halves (heartbeats, confirm
// timeouts, names, certificates) are tested with the sinks.
#include <algorithm>
#include <deque>
#include <random>
#include <set>

#include "relay/failure_test.h"
#include "support/store_wrapper.h"

namespace waybill {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class BrokerTest : public FailureTest {
 protected:
  // The next event: keys take turns, names count.
  void enqueue_next() {
    ++last_;
    enqueue("k" + std::to_string(last_ % keys), std::to_string(last_));
  }
  void enqueue_next(int count) {
    for (int i = 0; i < count; ++i) enqueue_next();
  }

  // Everything was delivered once, and of each key in order.
  void expect_all_once_in_order() const {
    std::map<int, int> newest;
    std::set<std::string> distinct;
    for (const std::string& name : script_.delivered) {
      const int number = std::stoi(name);
      EXPECT_TRUE(distinct.insert(name).second) << name << " came twice";
      EXPECT_LT(std::exchange(newest[number % keys], number), number) << "key " << number % keys;
    }
    EXPECT_EQ(static_cast<std::size_t>(last_), distinct.size());
  }
  // Nothing is left behind, and nothing was buried on the way.
  void expect_clear() {
    EXPECT_THAT(store_->inspector()->undelivered({}).events, IsEmpty());
    EXPECT_EQ(0, store_->inspector()->status().destinations.at(0).pending.value);
  }

  static constexpr int keys = 7;
  int last_ = 0;
};

// 39: it goes on within 5 s of the broker's return, whenever that is, with all that was under way.
TEST_F(BrokerTest, Row39_ABrokerThatRestartsUnderLoadIsUsedAgainWithinFiveSeconds) {
  std::mt19937 random(39);
  start({.retry = {.attempts = 1}});
  for (int restart = 0; restart < 500; ++restart) {
    script_.answers = false;
    enqueue_next(5);
    go(20ms);  // Some are under way when it goes.
    script_.answers = true;
    script_.away = true;
    go(std::chrono::milliseconds(random() % 3'000));
    enqueue_next(5);
    script_.away = false;
    go(5s);
    ASSERT_EQ(static_cast<std::size_t>(last_), script_.delivered.size()) << "restart " << restart;
  }
  expect_all_once_in_order();
  expect_clear();
}

// 40: nobody answers, and nobody hangs up. When the sink has noticed, all that was under way is as if it had not gone.
TEST_F(BrokerTest, Row40_WhatWasUnderWayInABlackHoleGoesAgainInOrder) {
  start({.retry = {.attempts = 1}});
  enqueue_next(40);
  script_.answers = false;
  go(20s);
  EXPECT_EQ(static_cast<std::size_t>(keys), script_.attempted.size()) << "of each key one";
  enqueue_next(40);
  script_.answers = true;
  script_.away = true;  // The heartbeat was missed.
  go(20s);
  EXPECT_THAT(script_.delivered, IsEmpty());
  script_.away = false;
  go(5s);
  expect_all_once_in_order();
  expect_clear();
}

// 41: it may have arrived, so it goes again: the same event, under the same id, before those behind it.
TEST_F(BrokerTest, Row41_AnEventWhoseConfirmWasLostIsSentAgainUnderItsId) {
  script_.next["1"] = {Kind::unknown, Kind::unknown};
  start();
  enqueue("a", "1");
  enqueue("a", "2");
  go(20s);
  EXPECT_THAT(script_.attempted, ElementsAre("1", "1", "1", "2"));
  const auto& ids = script_.attempted_ids;
  EXPECT_THAT(std::vector(ids.begin(), ids.begin() + 3), Each(ids.front()));
  EXPECT_NE(ids.front(), ids.back());
  EXPECT_THAT(script_.delivered, ElementsAre("1", "2"));
}

// 42: a broker that is well but skips a confirm now and then. Until the sink gives up on it the event is not published,
// nothing else waits for it, and then it goes again.
TEST_F(BrokerTest, Row42_AConfirmThatNeverComesHoldsNobodyAndIsNotTakenForOne) {
  start();
  for (int i = 1; i <= 5'000; ++i) {
    if (i % 1'000 == 0) script_.stuck.insert(std::to_string(i));
    enqueue("k" + std::to_string(i), std::to_string(i));
  }
  go(10s);
  EXPECT_THAT(script_.delivered, SizeIs(4'995));
  EXPECT_THAT(store_->inspector()->undelivered({}).events, SizeIs(5));
  for (const std::string& name : script_.stuck) script_.next[name] = {Kind::unknown};  // The confirm's time is over.
  script_.stuck.clear();
  go(20s);
  EXPECT_THAT(std::set(script_.delivered.begin(), script_.delivered.end()), SizeIs(5'000));
  EXPECT_EQ(5'005U, script_.attempted.size());
  expect_clear();
}

// Confirms one event a second, the oldest first.
class OneASecond final : public Sink {
 public:
  struct Seen {
    std::size_t delivered = 0;
    std::size_t most_under_way = 0;
  };
  OneASecond(const Clock& clock, Seen& seen) : clock_(clock), seen_(seen) {}
  void submit(const EventView&, std::uint64_t ticket) override {
    if (taken_.empty()) since_ = clock_.steady();
    taken_.push_back(ticket);
    seen_.most_under_way = std::max(seen_.most_under_way, taken_.size());
  }
  void collect(std::vector<Outcome>& outcomes, Steady) override {
    if (taken_.empty() || clock_.steady() - since_ < 1s) return;
    since_ = clock_.steady();
    outcomes.push_back({.ticket = taken_.front()});
    taken_.pop_front();
    ++seen_.delivered;
  }
  std::size_t in_flight_max() const override { return 10; }

 private:
  const Clock& clock_;
  Seen& seen_;
  Steady since_{};
  std::deque<std::uint64_t> taken_;
};

TEST_F(BrokerTest, Row43_ASlowBrokerCostsNoMemoryAndNoOtherDestination) {
  constexpr int events = 20'000;
  std::map<std::string, std::size_t> read;
  std::string reader;
  WrappedStore store(*store_, [&](const StoreCall& call, const std::function<void()>& run) {
    reader = call.destination;
    run();
  });
  store.on_reading = [&](const Reading& reading) {
    for (const Chunk& chunk : reading.chunks) read[reader] += chunk.events.size();
  };
  for (int i = 1; i <= events; ++i) enqueue("k" + std::to_string(i % 1'000), std::to_string(i));
  OneASecond::Seen slow;
  Relay relay(store, {.name = "r"}, Log{}, clock_);
  relay.add({.name = "slow"}, std::make_unique<OneASecond>(clock_, slow));
  relay.add({.name = "fast"}, std::make_unique<ScriptedSink>(script_));
  for (int i = 0; i < 6'000; ++i) {  // a minute
    relay.step();
    clock_.advance(10ms);
  }
  EXPECT_EQ(static_cast<std::size_t>(events), script_.delivered.size());
  EXPECT_GE(slow.delivered, 50U);
  EXPECT_LE(slow.delivered, 61U);
  EXPECT_EQ(10U, slow.most_under_way);
  EXPECT_EQ(static_cast<std::size_t>(events), read["fast"]);
  // Two shards, and four batches ahead in each.
  EXPECT_LE(read["slow"], 2 * 4 * 1'000 + slow.delivered);
}

// 44, one half of it: the broker is cut off, the store is not. (The other half: RelayTest.)
TEST_F(BrokerTest, Row44_CutOffFromTheBrokerARelayKeepsItsLeasesAndBuriesNothing) {
  start({.retry = {.attempts = 1}});
  enqueue_next();
  go();
  script_.away = true;
  enqueue_next(20);
  go(10min);
  EXPECT_EQ(2U, relay_->counts("out").leases);
  script_.away = false;
  go(5s);
  EXPECT_EQ(2U, relay_->counts("out").leases);
  expect_all_once_in_order();
  expect_clear();
}

// 45: every try is the sink's to begin anew, also with the name: nothing of the last one is kept for it.
TEST_F(BrokerTest, Row45_EveryTryAsksTheSinkAnew) {
  start();
  script_.away = true;
  script_.away_because = "no such host";
  enqueue_next();
  go(1min);
  EXPECT_GE(script_.probes, 15);
  EXPECT_EQ(1U, script_.attempted.size()) << "no event is spent on finding out";
  script_.away = false;
  const int before = script_.probes;
  go(5s);
  EXPECT_EQ(before + 1, script_.probes);
  expect_all_once_in_order();
}

// 46: in the middle of the work its rights are taken away.
TEST_F(BrokerTest, Row46_WhoIsLockedOutBlamesNoEvent) {
  start({.retry = {.attempts = 1}});
  enqueue_next(50);
  go();
  script_.away = true;
  script_.away_because = "ACCESS_REFUSED: user 'relay' may not write to exchange 'clinic'";
  enqueue_next(50);
  go(1h);
  EXPECT_EQ(50U, script_.delivered.size());
  const BreakerState breaker = relay_->counts("out").breaker;
  EXPECT_TRUE(breaker.open);
  EXPECT_THAT(breaker.reason, HasSubstr("ACCESS_REFUSED"));
  EXPECT_THAT(store_->inspector()->status().relays.at(0).troubles,
              ElementsAre(Trouble{.destination = "out", .text = script_.away_because}));
  for (const auto& view : store_->inspector()->undelivered({.limit = 1'000}).events) EXPECT_EQ(0, view.row.attempts);
  script_.away = false;
  go(5s);
  expect_all_once_in_order();
  expect_clear();
}

// 46: the same of a broker that answers each event with a refusal instead of none at all.
TEST_F(BrokerTest, Row46_WhatRejectsEverythingBuriesTwentyAtMost) {
  start();
  for (int i = 1; i <= 100; ++i) {
    script_.next[std::to_string(i)] = std::deque<Kind>(1'000, Kind::rejected);
    enqueue("k" + std::to_string(i), std::to_string(i));
  }
  go(20min);
  EXPECT_TRUE(relay_->counts("out").breaker.open);
  EXPECT_LE(standing(Standing::dead).size(), 20U);
  EXPECT_GE(standing(Standing::dead).size(), 1U);
  script_.next.clear();
  go(10min);
  EXPECT_EQ(100U, script_.delivered.size() + standing(Standing::dead).size());
}

// 46: one producer's events are all refused, or can all not be routed. Nobody else's wait for that.
TEST_F(BrokerTest, Row46_AFloodOfOneTenantsBadEventsDelaysNobodyElse) {
  for (const Kind kind : {Kind::rejected, Kind::retry}) {
    store_ = memory_store({.shards = 2}, clock_);
    script_ = {};
    start();
    for (int i = 1; i <= 1'000; ++i) {
      Event bad = event("", std::to_string(i));
      bad.tenant = i % 2 == 0 ? "bad" : "worse";
      script_.next[std::to_string(i)] = std::deque<Kind>(1'000, kind);
      enqueue(bad);
    }
    for (const char* name : {"-1", "-2", "-3"}) enqueue(name, name);
    go(1s);
    EXPECT_THAT(script_.delivered, UnorderedElementsAre("-1", "-2", "-3"));
    go(20s);  // Nothing good comes for a while, and then it does.
    EXPECT_LE(standing(Standing::dead).size(), kind == Kind::rejected ? 80U : 0U);
    enqueue("-4", "-4");
    go(1s);
    EXPECT_THAT(script_.delivered, UnorderedElementsAre("-1", "-2", "-3", "-4"));
    relay_.reset();
  }
}

class RefusesBeforeSending final : public Sink {
 public:
  explicit RefusesBeforeSending(ScriptedSink::Script& script) : sink_(script) {}
  void submit(const EventView& event, std::uint64_t ticket) override { sink_.submit(event, ticket); }
  void collect(std::vector<Outcome>& outcomes, Steady deadline) override {
    sink_.collect(outcomes, deadline);
    for (Outcome& outcome : outcomes) outcome.unsent = outcome.kind == Kind::rejected;
  }

 private:
  ScriptedSink sink_;
};

// What the sink itself refuses was never sent: it says nothing about the destination.
TEST_F(BrokerTest, Row46_WhatIsRefusedBeforeItIsSentIsBuriedAtOnce) {
  relay_ = std::make_unique<Relay>(*store_, RelayOptions{.name = "r"}, Log{}, clock_);
  relay_->add({.name = "out"}, std::make_unique<RefusesBeforeSending>(script_));
  for (int i = 1; i <= 300; ++i) {
    script_.next[std::to_string(i)] = {Kind::rejected};
    enqueue("k" + std::to_string(i), std::to_string(i));
  }
  enqueue("good", "-1");
  go(1s);
  EXPECT_FALSE(relay_->counts("out").breaker.open);
  EXPECT_EQ(300U, standing(Standing::dead).size());
  EXPECT_THAT(script_.delivered, ElementsAre("-1"));
}

// 48: an hour without the destination while the application goes on.
TEST_F(BrokerTest, Row48_AnOutageOfAnHourBuriesNothingAndDrainsInOrder) {
  script_.away = true;
  start({.retry = {.attempts = 1}});
  for (int minute = 0; minute < 60; ++minute) {
    enqueue_next(50);
    go(1min);
  }
  EXPECT_THAT(script_.delivered, IsEmpty());
  EXPECT_LT(script_.attempted.size() + static_cast<std::size_t>(script_.probes), 3'600U) << "a second or more apart";
  EXPECT_THAT(standing(Standing::dead), IsEmpty());
  script_.away = false;
  go(30s);
  expect_all_once_in_order();
  expect_clear();
}

// 48: relays are killed meanwhile, for reasons of their own. No event is taken for what killed them.
TEST_F(BrokerTest, Row48_RelaysThatAreKilledDuringAnOutageBlameNoEvent) {
  for (const auto on_unknown : {OnUnknown::resend, OnUnknown::hold}) {
    const DestinationOptions destination{.retry = {.attempts = 1}, .on_unknown = on_unknown};
    start(destination);
    script_.away = true;
    enqueue_next(200);
    for (int i = 0; i < 20; ++i) {
      go(57s);
      kill();
      start(destination);
    }
    go(10s);
    EXPECT_THAT(standing(Standing::dead), IsEmpty());
    EXPECT_THAT(standing(Standing::held), IsEmpty());
    script_.away = false;
    go(2min);
    expect_all_once_in_order();
    expect_clear();
    kill();
  }
}

// 48: it does not say that it is away, it only fails: every event, of many keys.
TEST_F(BrokerTest, Row48_WhatFailsForEverybodyForAnHourBuriesNothing) {
  start({.retry = {.attempts = 5}});
  for (int i = 1; i <= 100; ++i) {
    script_.next[std::to_string(i)] = std::deque<Kind>(100'000, Kind::retry);
    enqueue("k" + std::to_string(i), std::to_string(i));
  }
  go(1h);
  EXPECT_THAT(script_.delivered, IsEmpty());
  EXPECT_THAT(standing(Standing::dead), IsEmpty());
  script_.next.clear();
  go(15min);
  EXPECT_THAT(script_.delivered, SizeIs(100));
  expect_clear();
}

// 49: a thousand destinations are lost at the same instant. Tries are spread, and all are back soon after.
TEST_F(BrokerTest, Row49_AThousandDestinationsAreTriedFiftyASecond) {
  constexpr int destinations = 1'000;
  store_ = memory_store({.shards = 1}, clock_);
  std::deque<ScriptedSink::Script> scripts(destinations);
  Relay relay(*store_, {.name = "r"}, Log{}, clock_);
  for (int i = 0; i < destinations; ++i) {
    scripts[static_cast<std::size_t>(i)].away = true;
    relay.add({.name = "d" + std::to_string(i)}, std::make_unique<ScriptedSink>(scripts[static_cast<std::size_t>(i)]));
  }
  const auto tries = [&] {
    int sum = 0;
    for (const auto& script : scripts) sum += script.probes;
    return sum;
  };
  int most = 0;
  const auto pass = [&](Steady::duration time) {
    for (const Steady end = clock_.steady() + time; clock_.steady() < end;) {
      const int before = tries();
      relay.step();
      clock_.advance(100ms);
      most = std::max(most, tries() - before);
    }
  };
  enqueue("a", "1");
  pass(20s);  // By now the pauses are as long as they get.
  most = 0;
  pass(20s);
  EXPECT_GT(most, 0);
  EXPECT_LE(most, 6) << "in a tenth of a second";
  for (auto& script : scripts) script.away = false;
  pass(22s);
  for (const auto& script : scripts) EXPECT_THAT(script.delivered, ElementsAre("1"));
}

// 50: larger than this broker takes. It is that event's own fault, and the connection's in no way.
TEST_F(BrokerTest, Row50_WhatIsTooLargeIsBuriedWithTheReasonAndTheConnectionStays) {
  script_.next["2"] = {Kind::rejected};
  start();
  for (const char* name : {"1", "2", "3"}) enqueue("a", name);
  go(1min);
  EXPECT_THAT(script_.delivered, ElementsAre("1", "3"));
  EXPECT_THAT(script_.attempted, ElementsAre("1", "2", "3"));
  const auto dead = store_->inspector()->undelivered({}).events;
  ASSERT_THAT(dead, SizeIs(1));
  EXPECT_EQ("2", dead[0].event.payload);
  EXPECT_EQ("as scripted", dead[0].row.error);
  EXPECT_FALSE(relay_->counts("out").breaker.open);
  EXPECT_EQ(0, script_.probes);
  EXPECT_FALSE(script_.closed);
}

}  // namespace
}  // namespace waybill
