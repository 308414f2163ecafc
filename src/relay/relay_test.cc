#include "waybill/relay.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "waybill/error.h"
#include "waybill/testing.h"

#include "support/store_wrapper.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using Kind = Outcome::Kind;
using Names = std::vector<std::string>;

// One store; relays are made on it and stepped by hand. Events are named by their payload, a number; `key`
// orders them.
class RelayTest : public testing::Test {
 protected:
  void enqueue(const std::string& key, int name, std::string topic = "t") {
    Event event;
    event.topic = std::move(topic);
    event.key = key;
    event.payload = std::to_string(name);
    const auto writer = store_->writer();
    writer->enqueue(std::span(&event, 1));
    writer->commit();
  }

  std::unique_ptr<Relay> relay(ScriptedSink::Script& script, DestinationOptions destination = {.name = "out"}) {
    auto made = std::make_unique<Relay>(*store_, RelayOptions{.lease = 5s}, Log{}, clock_);
    destination.retry = {.first_delay = 1s, .max_delay = 1s};
    made->add(std::move(destination), std::make_unique<ScriptedSink>(script));
    return made;
  }

  // Steps until nothing happens; a step in between moves time a little, as the real thing would.
  void settle_down(Relay& relay, int rounds = 60) {
    for (int i = 0; i < rounds; ++i) {
      relay.step();
      clock_.advance(10ms);
    }
  }

  std::int64_t pending() {
    std::int64_t sum = 0;
    for (const auto& destination : store_->inspector()->status().destinations) sum += destination.pending.value;
    return sum;
  }

  ManualClock clock_;
  std::unique_ptr<Store> store_ = memory_store({.shards = 4}, clock_);
  ScriptedSink::Script script_;
};

TEST_F(RelayTest, DeliversInOrderAndSettles) {
  enqueue("a", 1);
  enqueue("a", 2);
  enqueue("a", 3);
  const auto relay = this->relay(script_);
  settle_down(*relay);
  EXPECT_EQ((Names{"1", "2", "3"}), script_.delivered);
  EXPECT_EQ(0, pending());
  EXPECT_EQ(3U, relay->counts("out").delivered);
  enqueue("a", 4);
  relay->hint();
  settle_down(*relay);
  EXPECT_EQ("4", script_.delivered.back());
}

TEST_F(RelayTest, ARestartedRelaySendsNothingTwice) {
  for (int i = 1; i <= 20; ++i) enqueue(std::to_string(i % 5), i);
  {
    const auto relay = this->relay(script_);
    settle_down(*relay);
  }
  clock_.advance(6s);  // the first one's lease
  enqueue("a", 21);
  const auto relay = this->relay(script_);
  settle_down(*relay);
  EXPECT_EQ(21U, script_.delivered.size());
  EXPECT_EQ("21", script_.delivered.back());
}

TEST_F(RelayTest, AFailureHoldsItsKeyAndIsTriedAgain) {
  enqueue("a", 1);
  enqueue("a", 2);
  enqueue("b", 3);
  script_.next["1"] = {Kind::retry, Kind::unknown, Kind::retry};
  const auto relay = this->relay(script_);
  settle_down(*relay, 1);
  EXPECT_EQ((Names{"3"}), script_.delivered);
  settle_down(*relay, 600);
  EXPECT_EQ((Names{"3", "1", "2"}), script_.delivered);
  EXPECT_EQ(3U, relay->counts("out").failed);
}

TEST_F(RelayTest, AnOutageStopsEverythingAndEndsByItself) {
  for (int i = 1; i <= 50; ++i) enqueue(std::to_string(i), i);
  script_.away = true;
  const auto relay = this->relay(script_);
  settle_down(*relay, 2'000);  // 20 s
  EXPECT_TRUE(script_.delivered.empty());
  EXPECT_LT(script_.attempted.size(), 60U);  // The first go of those that could, then a probe now and then.
  script_.away = false;
  settle_down(*relay, 600);
  EXPECT_EQ(50U, script_.delivered.size());
}

TEST_F(RelayTest, MatchDecidesWhatADestinationGets) {
  enqueue("a", 1, "patient.in");
  enqueue("a", 2, "room.open");
  enqueue("a", 3, "patient.out");
  const auto relay = this->relay(script_, {.name = "out", .match = {.topic = {"patient.*"}}});
  settle_down(*relay);
  EXPECT_EQ((Names{"1", "3"}), script_.delivered);
  EXPECT_EQ(0, pending());
}

TEST_F(RelayTest, EventsThatGoNowhereAreCountedOnce) {
  int name = 0;
  for (const char* topic : {"room.opened", "patient.called", "lamp.lit", "lamp.out"}) enqueue("a", ++name, topic);
  ScriptedSink::Script other;
  const auto relay = this->relay(script_, {.name = "out", .match = {.topic = {"room.*"}}});
  relay->add({.name = "other", .match = {.topic = {"patient.*"}}}, std::make_unique<ScriptedSink>(other));
  settle_down(*relay);
  EXPECT_EQ((Names{"1"}), script_.delivered);
  EXPECT_EQ((Names{"2"}), other.delivered);
  EXPECT_EQ(3U, relay->counts("out").skipped);
  EXPECT_EQ(2U, relay->counts("out").unmatched + relay->counts("other").unmatched);
}

TEST_F(RelayTest, Row43_DestinationsHaveTheirOwnProgress) {
  enqueue("a", 1);
  ScriptedSink::Script other;
  script_.away = true;
  const auto relay = this->relay(script_);
  relay->add({.name = "other"}, std::make_unique<ScriptedSink>(other));
  settle_down(*relay, 10);
  EXPECT_TRUE(script_.delivered.empty());
  EXPECT_EQ((Names{"1"}), other.delivered);
}

TEST_F(RelayTest, StartsAtTheBeginningOrNow) {
  enqueue("a", 1);
  const auto relay = this->relay(script_, {.name = "late", .start = Start::now});
  settle_down(*relay);
  enqueue("a", 2);
  relay->hint();
  settle_down(*relay);
  EXPECT_EQ((Names{"2"}), script_.delivered);
}

TEST_F(RelayTest, AScheduledEventWaitsForItsTimeAndAnExpiredOneIsSkipped) {
  Event event;
  event.topic = "t";
  event.payload = "1";
  event.not_before = clock_.now() + 5s;
  const auto writer = store_->writer();
  writer->enqueue(std::span(&event, 1));
  event.not_before.reset();
  event.payload = "2";
  event.expires_at = clock_.now() - 1s;
  writer->enqueue(std::span(&event, 1));
  writer->commit();
  const auto relay = this->relay(script_);
  settle_down(*relay, 100);
  EXPECT_TRUE(script_.delivered.empty());
  settle_down(*relay, 600);
  EXPECT_EQ((Names{"1"}), script_.delivered);
}

TEST_F(RelayTest, TwoRelaysShareTheShards) {
  ScriptedSink::Script other_script;
  const auto one = relay(script_);
  settle_down(*one);
  const auto other = relay(other_script);
  for (int i = 0; i < 300; ++i) {
    one->step();
    other->step();
    clock_.advance(10ms);
  }
  const auto status = store_->inspector()->status();
  ASSERT_EQ(2U, status.relays.size());
  EXPECT_EQ(2, status.relays[0].shards_owned);
  EXPECT_EQ(2, status.relays[1].shards_owned);

  for (int i = 1; i <= 40; ++i) enqueue(std::to_string(i), i);
  for (int i = 0; i < 300; ++i) {
    one->step();
    other->step();
    clock_.advance(10ms);
  }
  EXPECT_EQ(40U, script_.delivered.size() + other_script.delivered.size());
  EXPECT_FALSE(script_.delivered.empty());
  EXPECT_FALSE(other_script.delivered.empty());
}

TEST_F(RelayTest, Row73_TakesOverWhenTheLeaseRunsOutAndTheZombieWritesNothing) {
  enqueue("a", 1);
  enqueue("a", 2);
  script_.answers = false;
  const auto zombie = relay(script_);
  settle_down(*zombie, 10);
  EXPECT_EQ((Names{"1"}), script_.attempted);

  clock_.advance(6s);
  ScriptedSink::Script heir_script;
  const auto heir = relay(heir_script);
  settle_down(*heir);
  EXPECT_EQ((Names{"1", "2"}), heir_script.delivered);

  script_.answers = true;  // The zombie wakes up: its answer settles nothing, and it sends nothing of the shard.
  settle_down(*zombie, 5);
  EXPECT_EQ((Names{"1"}), script_.attempted);
  EXPECT_EQ(0, pending());
}

TEST_F(RelayTest, Row44_ARelayThatCannotRenewItsLeaseStopsPublishing) {
  WrappedStore store(*store_);
  Relay relay(store, RelayOptions{.lease = 5s}, Log{}, clock_);
  relay.add({.name = "out"}, std::make_unique<ScriptedSink>(script_));
  settle_down(relay);
  store.around([](const StoreCall& call, const std::function<void()>& run) {
    if (call.name == "beat") throw Error(Remedy::retry, "no answer");
    run();
  });
  clock_.advance(4500ms);  // Past the margin, not yet past the lease.
  enqueue("a", 1);
  relay.hint();
  settle_down(relay, 500);
  EXPECT_TRUE(script_.attempted.empty());
  store.around({});
  settle_down(relay, 300);
  EXPECT_EQ((Names{"1"}), script_.delivered);
}

TEST_F(RelayTest, AnEventThatExpiresWhileItWaitsIsNotDelivered) {
  Event event;
  event.topic = "t";
  event.key = "a";
  event.payload = "1";
  const auto writer = store_->writer();
  writer->enqueue(std::span(&event, 1));
  event.payload = "2";
  event.expires_at = clock_.now() + 1s;
  writer->enqueue(std::span(&event, 1));
  event.payload = "3";
  event.expires_at.reset();
  writer->enqueue(std::span(&event, 1));
  writer->commit();
  script_.answers = false;
  const auto relay = this->relay(script_);
  settle_down(*relay, 200);
  script_.answers = true;
  settle_down(*relay);
  EXPECT_EQ((Names{"1", "3"}), script_.delivered);
  EXPECT_EQ(0, pending());
}

// Of two shards one is busy all the time; nobody polls then, and no producer tells.
TEST_F(RelayTest, Row86_AQuietShardDoesNotWaitBehindABusyOne) {
  const auto relay = this->relay(script_);
  settle_down(*relay);
  int name = 0;
  const auto busy = [&](int milliseconds) {
    for (int i = 0; i < milliseconds; ++i) {
      enqueue("busy", ++name);
      relay->step();
      clock_.advance(1ms);
    }
  };
  enqueue("busy", ++name);
  relay->hint();
  busy(250);
  for (const std::string key : {"b", "c", "d", "e", "f", "g"}) enqueue(key, 1'000'000);
  busy(120);
  EXPECT_EQ(6, std::count(script_.delivered.begin(), script_.delivered.end(), "1000000"));
}

TEST_F(RelayTest, NeverMoreUnderWayThanTheSinkTakes) {
  for (int i = 1; i <= 100; ++i) enqueue(std::to_string(i), i);
  script_.in_flight_max = 7;
  const auto relay = this->relay(script_);
  settle_down(*relay, 200);
  EXPECT_EQ(100U, script_.delivered.size());
  EXPECT_EQ(7U, script_.most_under_way);
}

TEST_F(RelayTest, RefusesOptionsOutOfRange) {
  try {
    Relay relay(*store_, RelayOptions{.batch = 0}, Log{}, clock_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_config, error.remedy());
    EXPECT_STREQ("batch is out of range; allowed: 1 to 10000", error.what());
  }
}

// The same on threads and the real clock.

// Events without a key, named 1, 2, …
void enqueue(Store& store, int count) {
  const auto writer = store.writer();
  for (int i = 1; i <= count; ++i) {
    Event event;
    event.topic = "t";
    event.payload = std::to_string(i);
    writer->enqueue(std::span(&event, 1));
  }
  writer->commit();
}

TEST(RelayOnThreads, DrainDeliversEverythingAndReturns) {
  const auto store = memory_store({.shards = 4});
  const auto writer = store->writer();
  for (int i = 1; i <= 5000; ++i) {
    Event event;
    event.topic = "t";
    event.key = std::to_string(i % 100);
    event.payload = std::to_string(i);
    writer->enqueue(std::span(&event, 1));
  }
  writer->commit();
  ScriptedSink::Script script;
  Relay relay(*store, RelayOptions{});
  relay.add({.name = "out"}, std::make_unique<ScriptedSink>(script));
  relay.drain({});
  EXPECT_EQ(5000U, script.delivered.size());
  EXPECT_TRUE(script.closed);
  EXPECT_EQ(0, store->inspector()->status().destinations.at(0).pending.value);
}

TEST(RelayOnThreads, ADrainLeavesWhatIsPausedToAPerson) {
  const auto store = memory_store({.shards = 4});
  enqueue(*store, 20);
  ScriptedSink::Script paused;
  ScriptedSink::Script other;
  Relay relay(*store, RelayOptions{});
  relay.add({.name = "paused"}, std::make_unique<ScriptedSink>(paused));
  relay.add({.name = "other"}, std::make_unique<ScriptedSink>(other));
  relay.drain({});
  store->operate()->pause({.id = EventId::make()}, "paused", true);
  enqueue(*store, 30);
  relay.drain({});
  EXPECT_EQ(20U, paused.delivered.size());
  EXPECT_EQ(50U, other.delivered.size());
  store->operate()->pause({.id = EventId::make()}, "paused", false);
  relay.drain({});
  EXPECT_EQ(50U, paused.delivered.size());
}

TEST(RelayOnThreads, ASecondRunIsAsGoodAsTheFirst) {
  const auto store = memory_store({.shards = 4});
  ScriptedSink::Script script;
  Relay relay(*store, RelayOptions{});
  relay.add({.name = "out"}, std::make_unique<ScriptedSink>(script));
  for (std::size_t round = 1; round <= 3; ++round) {
    enqueue(*store, 100);
    relay.drain({});
    EXPECT_EQ(100 * round, script.delivered.size());
    EXPECT_TRUE(store->inspector()->status().relays.empty());
  }
}

// What the first run has left at the sink when its grace was over comes again in the second.
TEST(RelayOnThreads, ASecondRunBeginsWhereTheFirstWasCutOff) {
  const auto store = memory_store({.shards = 1});
  ScriptedSink::Script script;
  script.answers = false;
  Relay relay(*store, RelayOptions{.grace = 10ms});
  relay.add({.name = "out"}, std::make_unique<ScriptedSink>(script));
  enqueue(*store, 3);
  {
    std::jthread thread([&](const std::stop_token& stop) { relay.run(stop); });
    std::this_thread::sleep_for(50ms);  // Nothing tells what a sink that does not answer was given.
  }
  script.answers = true;
  relay.drain({});
  EXPECT_EQ((Names{"1", "2", "3"}), script.delivered);
}

TEST(RelayOnThreads, WhenOneDestinationFailsTheOthersAreSettled) {
  const auto memory = memory_store({.shards = 4});
  WrappedStore store(*memory);
  enqueue(*memory, 500);
  ScriptedSink::Script good;
  ScriptedSink::Script bad;
  Relay relay(store, RelayOptions{.settle_interval = 5s});
  relay.add({.name = "good"}, std::make_unique<ScriptedSink>(good));
  relay.add({.name = "bad"}, std::make_unique<ScriptedSink>(bad));
  const auto pending = [&] {
    for (const auto& destination : memory->inspector()->status().destinations)
      if (destination.name == "good") return destination.pending.value;
    return std::int64_t{500};
  };
  store.around([&](const StoreCall& call, const std::function<void()>& run) {
    if (call.name == "exchange" && call.destination == "bad") {
      while (pending() > 0) std::this_thread::yield();
      enqueue(*memory, 500);  // It will be a while until these are settled.
      relay.hint();
      while (relay.counts("good").delivered < 1000) std::this_thread::yield();
      throw Error(Remedy::fix_config, "no rights");
    }
    run();
  });
  EXPECT_THROW(relay.run({}), Error);
  EXPECT_EQ(1000U, good.delivered.size());
  EXPECT_EQ(0, pending());
}

// What the store does not take it will never take: to try for ever would send the same events for ever.
TEST(RelayOnThreads, ASettlementThatIsRefusedForWhatItSaysEndsTheRelay) {
  const auto memory = memory_store({.shards = 1});
  enqueue(*memory, 1);
  WrappedStore store(*memory);
  ScriptedSink::Script script;
  Relay relay(store, {.name = "test"});
  relay.add({.name = "out"}, std::make_unique<ScriptedSink>(script));
  store.around([&](const StoreCall& call, const std::function<void()>& run) {
    if (call.name == "exchange" && !script.delivered.empty()) throw Error(Remedy::fix_input, "no such character");
    run();
  });
  EXPECT_THROW(relay.run({}), Error);
  EXPECT_EQ(1U, script.delivered.size());
}

// While the store is away there is nothing to be settled: a stop need not wait for it.
TEST(RelayOnThreads, AStopWhileTheStoreIsAwayDoesNotWait) {
  const auto memory = memory_store({.shards = 4});
  WrappedStore store(*memory);
  std::atomic<bool> away{false};
  std::atomic<int> refused{0};
  store.around([&](const StoreCall&, const std::function<void()>& run) {
    if (away && ++refused) throw Error(Remedy::retry, "away");
    run();
  });
  ScriptedSink::Script script;
  Relay relay(store, RelayOptions{.grace = 60s});
  relay.add({.name = "out"}, std::make_unique<ScriptedSink>(script));
  std::jthread thread([&](const std::stop_token& stop) { relay.run(stop); });
  enqueue(*memory, 1);
  while (relay.counts("out").delivered < 1) std::this_thread::yield();
  away = true;
  while (refused < 2) std::this_thread::yield();
  const auto before = std::chrono::steady_clock::now();
  thread.request_stop();
  thread.join();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
}

// The sink gets what is left of the grace period, not another one.
// The order to give a shard back comes while the shard is being opened, and in that same turn its events go out.
TEST(RelayOnThreads, AStopWhileAShardIsOpenedSettlesWhatThenGoesOut) {
  const auto memory = memory_store({.shards = 1});
  enqueue(*memory, 1);
  std::stop_source stop;
  WrappedStore store(*memory, [&](const StoreCall& call, const std::function<void()>& run) {
    if (call.name == "open") {
      stop.request_stop();
      std::this_thread::sleep_for(100ms);  // The keeper must not take it for idle, however long it looks.
    }
    run();
  });
  ScriptedSink::Script script;
  Relay relay(store, {});
  relay.add({.name = "out"}, std::make_unique<ScriptedSink>(script));
  relay.run(stop.get_token());
  const auto destinations = memory->inspector()->status().destinations;
  EXPECT_EQ(1 - std::ssize(script.delivered), destinations.at(0).pending.value);
}

TEST(RelayOnThreads, Row85_AStopTakesNoLongerThanItsGrace) {
  const auto store = memory_store({.shards = 1});
  ScriptedSink::Script script;
  script.answers = false;
  Relay relay(*store, RelayOptions{.grace = 100ms});
  relay.add({.name = "out"}, std::make_unique<ScriptedSink>(script));
  enqueue(*store, 1);
  std::jthread thread([&](const std::stop_token& stop) { relay.run(stop); });
  std::this_thread::sleep_for(50ms);
  const Steady stopped = std::chrono::steady_clock::now();
  thread.request_stop();
  thread.join();
  EXPECT_LT(script.close_by - stopped, 150ms);
}

TEST(RelayOnThreads, StopHandsOverAtOnce) {
  const auto store = memory_store({.shards = 4});
  ScriptedSink::Script script;
  Relay relay(*store, RelayOptions{});
  relay.add({.name = "out"}, std::make_unique<ScriptedSink>(script));
  std::jthread thread([&](const std::stop_token& stop) { relay.run(stop); });
  for (int i = 1; i <= 100; ++i) {
    Event event;
    event.topic = "t";
    event.payload = std::to_string(i);
    const auto writer = store->writer();
    writer->enqueue(std::span(&event, 1));
    writer->commit();
  }
  while (relay.counts("out").delivered < 100) std::this_thread::yield();
  thread.request_stop();
  thread.join();
  const auto status = store->inspector()->status();
  EXPECT_EQ(0, status.destinations.at(0).pending.value);
  EXPECT_EQ(0, status.destinations.at(0).shards_owned);
  EXPECT_TRUE(status.relays.empty());
}

// One destination of a relay that leaves hangs, which takes the relay up to its grace. The shards of the other are the
// next relay's at once.
TEST(RelayOnThreads, Row85_AHangingDestinationKeepsNoOtherFromBeingHandedOver) {
  const auto store = memory_store({.shards = 16});
  std::array<ScriptedSink::Script, 4> scripts;
  scripts[1].answers = false;
  scripts[3].answers = false;
  Relay leaves(*store, RelayOptions{.name = "leaves", .lease = 1s, .grace = 1s});
  Relay stays(*store, RelayOptions{.name = "stays", .lease = 1s, .grace = 0ms});
  leaves.add({.name = "well"}, std::make_unique<ScriptedSink>(scripts[0]));
  leaves.add({.name = "hangs"}, std::make_unique<ScriptedSink>(scripts[1]));
  stays.add({.name = "well"}, std::make_unique<ScriptedSink>(scripts[2]));
  stays.add({.name = "hangs"}, std::make_unique<ScriptedSink>(scripts[3]));
  const auto eventually = [](std::chrono::milliseconds time, const auto& condition) {
    for (const Steady end = std::chrono::steady_clock::now() + time; !condition(); std::this_thread::sleep_for(1ms))
      if (std::chrono::steady_clock::now() > end) return false;
    return true;
  };
  enqueue(*store, 100);
  std::jthread leaving([&](const std::stop_token& stop) { leaves.run(stop); });
  ASSERT_TRUE(eventually(10s, [&] { return leaves.counts("well").delivered == 100; }));
  std::jthread staying([&](const std::stop_token& stop) { stays.run(stop); });
  ASSERT_TRUE(eventually(10s, [&] { return stays.counts("well").leases == 8; }));
  ASSERT_GT(leaves.counts("hangs").leases, 0U);
  leaving.request_stop();
  EXPECT_TRUE(eventually(900ms, [&] { return stays.counts("well").leases == 16; }));
  EXPECT_TRUE(leaves.health().running);  // So it is not that it had gone.
  EXPECT_GT(leaves.counts("hangs").leases, 0U);
}

// A transaction that stays open keeps the store from telling.
TEST(RelayWithoutNews, Row3_27_LooksOftenEnough) {
  ManualClock clock;
  const auto memory = memory_store({.shards = 2}, clock);
  WrappedStore store(*memory, [](const StoreCall& call, const std::function<void()>& run) {
    if (call.name != "sleep") run();
  });
  ScriptedSink::Script script;
  Relay relay(store, RelayOptions{.poll_busy = 100ms, .poll_idle = 2s}, Log{}, clock);
  relay.add({.name = "out"}, std::make_unique<ScriptedSink>(script));
  const auto go = [&](std::chrono::milliseconds time) {
    for (const Steady end = clock.steady() + time; clock.steady() < end; clock.advance(10ms)) {
      while (relay.step() > 0) {
      }
    }
  };
  go(10'330ms);
  Event event;
  event.topic = "t";
  event.payload = "1";
  const auto writer = memory->writer();
  writer->enqueue(std::span(&event, 1));
  writer->commit();
  go(150ms);
  EXPECT_EQ(1U, script.delivered.size());
}

}  // namespace
}  // namespace waybill
