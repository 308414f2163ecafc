// Events that go alone, since a relay has died while it sent them: who is to blame, and what becomes of the others.
#include <atomic>
#include <functional>
#include <future>
#include <set>
#include <stop_token>
#include <thread>

#include "model/key_hash.h"
#include "relay/failure_test.h"
#include "relay/keeper.h"
#include "relay/trial.h"
#include "support/store_wrapper.h"

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// All that is in the log is undelivered, as `stands` says, and whoever wrote that is dead.
void leave_undelivered(Store& store, const std::function<void(const EventView& event, Undelivered& row)>& stands) {
  const RelayIdentity dead{.id = "dead", .name = "dead", .lease = 5s};
  const auto membership = store.join(dead);
  const std::vector<std::string> names{"out"};
  const std::vector<Lease> leases = membership->take(membership->beat(names).free);
  const auto session = store.connect(dead, "out");
  session->open(leases, Start::beginning, false);
  Appetite all{.events_max = 1'000, .bytes_max = 1'000'000};
  for (const Lease& lease : leases) all.shards.push_back(lease.shard);
  std::vector<Settlement> settled;
  for (const Chunk& chunk : session->exchange({}, all).chunks) {
    Settlement& settlement = settled.emplace_back();
    settlement.shard = chunk.shard;
    settlement.term = leases.at(static_cast<std::size_t>(chunk.shard)).term;
    settlement.window = chunk.window;
    settlement.seq = chunk.events.back().seq;
    settlement.window_done = true;
    settlement.count = std::ssize(chunk.events);
    for (const EventView& event : chunk.events) {
      Undelivered row{.seq = event.seq, .key = key_hash(event), .blocks = true};
      stands(event, row);
      settlement.undelivered.push_back(std::move(row));
    }
  }
  session->exchange(settled, {});
  membership->leave();
}

class AloneTest : public FailureTest {
 protected:
  static constexpr RetryPolicy quick{.attempts = 0, .first_delay = 1ms, .max_delay = 1ms};

  Undelivered row_of(const std::string& name, const std::string& destination = "out") {
    for (const auto& view : store_->inspector()->undelivered({.destination = destination, .limit = 1'000}).events)
      if (view.event.payload == name) return view.row;
    return {};
  }
};

// Whether or not a relay has died of it: what finds the destination away whenever it is tried keeps nothing else from
// being tried.
TEST_F(AloneTest, OneThatFindsTheDestinationAwayDoesNotKeepTheOthersWaitingForEver) {
  for (const int crashes : {0, 1}) {
    store_ = memory_store({.shards = 2}, clock_);
    script_ = {};
    script_.next["1"] = std::deque<Kind>(100'000, Kind::unavailable);
    enqueue("1", "1");
    leave_undelivered(*store_, [&](const EventView&, Undelivered& row) {
      row.attempts = 1;
      row.crashes = crashes;
    });
    start({.retry = quick});
    go(1s);
    enqueue("2", "2");
    go(10min);
    EXPECT_THAT(script_.delivered, ElementsAre("2")) << crashes;
    relay_.reset();
  }
}

// Each takes five seconds, and nothing else is sent meanwhile; but between two of them.
TEST_F(AloneTest, ManyThatTakeTheirTimeDoNotKeepTheOthersWaitingForAll) {
  for (int i = 1; i <= 20; ++i) {
    enqueue(std::to_string(i), std::to_string(i));
    script_.next[std::to_string(i)] = std::deque<Kind>(100, Kind::retry);
    script_.stuck.insert(std::to_string(i));
  }
  leave_undelivered(*store_, [](const EventView&, Undelivered& row) {
    row.attempts = 1;
    row.crashes = 1;
  });
  start({.retry = {.first_delay = 1h, .max_delay = 1h}});
  go(2s);
  enqueue("0", "0");
  const auto stuck = script_.stuck;
  for (int i = 0; i < 4; ++i) {
    go(5s);
    script_.stuck.clear();
    relay_->step();
    script_.stuck = stuck;
  }
  EXPECT_THAT(script_.delivered, ElementsAre("0"));
}

// Else a crash counts against what was not even tried, and more and more goes alone.
TEST_F(AloneTest, NothingElseIsAnnouncedMeanwhile) {
  enqueue("1", "1");
  enqueue("2", "2");
  leave_undelivered(*store_, [](const EventView& event, Undelivered& row) {
    row.attempts = 1;
    if (event.payload == "1") row.crashes = 1;
    if (event.payload == "2") row.wait = 3s;
  });
  script_.stuck = {"1"};
  start({.retry = quick});
  go(1'100ms);
  EXPECT_EQ(Undelivered::Sending::on_trial, row_of("1").sending);
  go(4s);
  EXPECT_THAT(script_.attempted, ElementsAre("1"));
  EXPECT_EQ(Undelivered::Sending::yes, row_of("1").sending);
  EXPECT_EQ(Undelivered::Sending::no, row_of("2").sending);
  script_.stuck.clear();
  go(1s);
  EXPECT_THAT(script_.delivered, ElementsAre("1", "2"));
}

// 1 and 2 were dead, and redriven when 3 was under way; then the relay died. So 3 is found by the way, behind 2.
TEST_F(AloneTest, OneThatIsFoundBehindOthersOfItsKeyIsTried) {
  for (const char* name : {"1", "2", "3"}) enqueue("a", name);
  leave_undelivered(*store_, [](const EventView& event, Undelivered& row) {
    if (event.payload != "3") return;
    row.attempts = 2;
    row.sending = Undelivered::Sending::yes;
  });
  start({.retry = quick});
  go(1min);
  EXPECT_THAT(script_.delivered, ElementsAre("1", "2", "3"));
}

// The first connection for the leases that were won breaks: that is no sign that this relay has sent anything.
TEST_F(AloneTest, Row14_80_APoisonEventIsFoundThoughEachRelaysFirstConnectionBreaks) {
  const auto memory = std::move(store_);
  bool fresh = false;
  store_ = std::make_unique<WrappedStore>(*memory, [&](const StoreCall& call, const std::function<void()>& run) {
    if (call.name == "join") fresh = true;
    if (call.name == "open" && std::exchange(fresh, false)) throw Error(Remedy::retry, "too many connections");
    run();
  });
  script_.poison = {"5"};
  for (int i = 1; i <= 9; ++i) enqueue(std::to_string(i), std::to_string(i));
  EXPECT_LT(kills_until_all_ended(), 10);
  EXPECT_THAT(standing(Standing::held), ElementsAre("5"));
  relay_.reset();
  store_.reset();
}

// One process, two destinations. At one of them the event kills it; at the other it is delivered each time.
TEST_F(AloneTest, Row14_80_APoisonEventOfOneDestinationBuriesNothingOfAnother) {
  ScriptedSink::Script other;
  script_.poison = {"1"};
  enqueue("1", "1");
  int kills = 0;
  for (; kills < 30; ++kills) {
    script_.poisoned = false;
    start({.retry = quick});
    relay_->add({.name = "other", .retry = quick}, std::make_unique<ScriptedSink>(other));
    for (int i = 0; i < 3'000 && !script_.poisoned; ++i) {
      relay_->step();
      clock_.advance(10ms);
    }
    if (!script_.poisoned) break;
    kill();
  }
  EXPECT_LT(kills, 10);
  EXPECT_EQ(Standing::held, row_of("1").standing);
  EXPECT_THAT(store_->inspector()->undelivered({.destination = "other"}).events, IsEmpty());
  EXPECT_FALSE(other.delivered.empty());
}

// Answers nothing.
class SilentSink final : public Sink {
 public:
  explicit SilentSink(std::atomic<int>& attempts) : attempts_(attempts) {}
  void submit(const EventView&, std::uint64_t) override { ++attempts_; }
  void collect(std::vector<Outcome>&, Steady) override { std::this_thread::sleep_for(1ms); }

 private:
  std::atomic<int>& attempts_;
};

// A relay that is told to stop and does so when the grace period is over was not killed by what is still under way.
TEST(AloneOnTheRealClock, AStopIsNoCrash) {
  const auto store = memory_store({.shards = 1});
  const auto writer = store->writer();
  const Event event = [] {
    Event made;
    made.topic = "t";
    made.key = "a";
    made.payload = "1";
    return made;
  }();
  writer->enqueue(std::span(&event, 1));
  writer->commit();
  leave_undelivered(*store, [](const EventView&, Undelivered& row) { row.attempts = 1; });
  for (int run = 0; run < 2; ++run) {  // In the first it is among others, in the second alone.
    std::atomic<int> attempts = 0;
    Relay relay(*store, RelayOptions{.name = "r", .grace = 0ms});
    relay.add({.name = "out", .retry = {.first_delay = 1ms, .max_delay = 1ms}}, std::make_unique<SilentSink>(attempts));
    std::stop_source stop;
    std::jthread thread([&] { relay.run(stop.get_token()); });
    for (int i = 0; i < 10'000 && attempts == 0; ++i) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(1, attempts);
    stop.request_stop();
  }
  const auto events = store->inspector()->undelivered({}).events;
  ASSERT_EQ(1U, events.size());
  EXPECT_EQ(Standing::retrying, events[0].row.standing);
  EXPECT_EQ(1, events[0].row.crashes);
  EXPECT_EQ(0, events[0].row.blamed);
  EXPECT_EQ(Undelivered::Sending::no, events[0].row.sending);
}

enum class Why { away, paused, untrusted };

// Has events that are to go alone and cannot; counts the turns of the carrier's thread, while they wait and when their
// control is over.
int turns_of_one_that_cannot_go(Why why) {
  const auto store = memory_store({.shards = 2});
  const auto writer = store->writer();
  for (const char* name : {"1", "2", "3", "4"}) {
    Event event;
    event.topic = "t";
    event.key = name;
    event.payload = name;
    writer->enqueue(std::span(&event, 1));
  }
  writer->commit();
  leave_undelivered(*store, [&](const EventView& event, Undelivered& row) {
    row.attempts = 1;
    if (event.payload != "4") row.crashes = 1;
  });
  if (why == Why::paused) store->operate()->pause({.id = EventId::make()}, "out", true);
  const RelayContext context{.store = *store,
                             .options = {},
                             .identity = {.id = "one", .name = "one", .lease = 5s},
                             .log = Log{},
                             .clock = system_clock()};
  Trust trust;
  Waker waker;
  ScriptedSink::Script script;
  script.away = why == Why::away;
  std::vector<std::unique_ptr<Carrier>> carriers;
  carriers.push_back(std::make_unique<Carrier>(context, trust, waker, DestinationOptions{.name = "out"},
                                               std::make_unique<ScriptedSink>(script)));
  Carrier& carrier = *carriers.front();
  Vitals vitals;
  Keeper keeper(context, trust, vitals, waker, carriers);
  keeper.turn();
  const Steady end = context.clock.steady() + trial::first_control + 400ms;
  int turns = 0;
  if (why == Why::untrusted) {
    carrier.step();
    trust.extend({});
  }
  for (; context.clock.steady() < end; ++turns)
    if (carrier.step() == 0) carrier.wait(end);
  return turns;
}

// Whatever it is that one waits for which is to go alone, the thread does not spin.
TEST(AloneOnTheRealClock, OneThatCannotGoWaits) {
  std::vector<std::future<int>> turns;
  for (const Why why : {Why::away, Why::paused, Why::untrusted})
    turns.push_back(std::async(std::launch::async, turns_of_one_that_cannot_go, why));
  for (std::size_t why = 0; why < turns.size(); ++why) EXPECT_LT(turns[why].get(), 150) << why;
}

}  // namespace
}  // namespace waybill
