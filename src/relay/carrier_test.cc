#include "relay/carrier.h"

#include <gtest/gtest.h>

#include "waybill/testing.h"

#include "relay/keeper.h"
#include "support/store_wrapper.h"

// A carrier and its keeper, stepped by hand, also in the middle of each other's calls to the store.
namespace waybill {
namespace {

using namespace std::chrono_literals;
using Names = std::vector<std::string>;
using Call = std::function<void()>;

class CarrierTest : public testing::Test {
 protected:
  CarrierTest() {
    carriers_.push_back(std::make_unique<Carrier>(context_, trust_, waker_, DestinationOptions{.name = "out"},
                                                  std::make_unique<ScriptedSink>(script_)));
  }

  Carrier& carrier() { return *carriers_.front(); }

  void enqueue(const std::string& key, int name) {
    Event event;
    event.topic = "t";
    event.key = key;
    event.payload = std::to_string(name);
    const auto writer = memory_->writer();
    writer->enqueue(std::span(&event, 1));
    writer->commit();
    carrier().news();
  }

  void settle_down(int rounds = 60) {
    for (int i = 0; i < rounds; ++i) {
      keeper_.turn();
      carrier().step();
      clock_.advance(10ms);
    }
  }

  // Once, at the next call of that name.
  void at_next(std::string name, std::function<void(const Call& run)> act) {
    store_.around([this, name = std::move(name), act = std::move(act)](const StoreCall& call, const Call& run) {
      if (call.name != name) return run();
      const auto once = act;
      store_.around({});
      once(run);
    });
  }

  void break_connection() {
    at_next("exchange", [](const Call&) { throw Error(Remedy::retry, "the connection broke"); });
    enqueue("x", 0);
    carrier().step();
    clock_.advance(200ms);
  }

  std::int64_t term_of(std::int32_t shard) {
    for (const Lease& lease : carrier().held())
      if (lease.shard == shard) return lease.term;
    return 0;
  }

  int lines(std::string_view text) const {
    return static_cast<int>(std::count_if(
        log_.begin(), log_.end(), [&](const std::string& line) { return line.find(text) != std::string::npos; }));
  }

  ManualClock clock_;
  std::vector<std::string> log_;
  std::unique_ptr<Store> memory_ = memory_store({.shards = 2}, clock_);
  WrappedStore store_{*memory_};
  RelayContext context_{
      .store = store_,
      .options = {.lease = 5s},
      .identity = {.id = "one", .name = "one", .lease = 5s},
      .log = Log([this](LogLevel, std::string_view text, std::span<const LogField>) { log_.emplace_back(text); }),
      .clock = clock_};
  Trust trust_;
  Waker waker_;
  ScriptedSink::Script script_;
  std::vector<std::unique_ptr<Carrier>> carriers_;
  Vitals vitals_;
  Keeper keeper_{context_, trust_, vitals_, waker_, carriers_};
};

// The term was raised for the new connection, and a heartbeat sees it before the carrier does.
TEST_F(CarrierTest, AHeartbeatInTheMiddleOfAReconnectBeginsNothingTwice) {
  settle_down();
  break_connection();
  at_next("open", [&](const Call& run) {
    run();
    clock_.advance(1100ms);
    keeper_.turn();
  });
  settle_down();
  enqueue("a", 1);
  settle_down();
  EXPECT_EQ((Names{"0", "1"}), script_.delivered);
  EXPECT_EQ(2U, carrier().held().size());
}

// And the other way round: the heartbeat was answered before the term was raised, and is heard after.
TEST_F(CarrierTest, AHeartbeatFromBeforeAReconnectTakesNothingAway) {
  settle_down();
  break_connection();
  script_.answers = false;
  clock_.advance(1100ms);
  at_next("beat", [&](const Call& run) {
    run();
    carrier().step();
  });
  const std::int64_t before = term_of(0);
  keeper_.turn();
  EXPECT_EQ(before + 1, term_of(0));
  settle_down(300);
  EXPECT_EQ((Names{"0"}), script_.attempted);
}

// The answer to raising the term was lost with the connection.
TEST_F(CarrierTest, AReconnectThatBreaksInTheMiddleGoesOnUnderTheTermThatTheHeartbeatShows) {
  settle_down();
  break_connection();
  at_next("open", [&](const Call& run) {
    run();
    throw Error(Remedy::unknown, "the connection broke while waiting for the answer");
  });
  carrier().step();
  clock_.advance(1100ms);
  keeper_.turn();
  carrier().step();
  EXPECT_EQ((Names{"0"}), script_.delivered);
}

TEST_F(CarrierTest, AGrantThatIsNotFollowedYetWhenTheConnectionBreaksIsBegunOnce) {
  keeper_.turn();
  const std::vector<Lease> leases = carrier().held();
  carrier().step();
  at_next("exchange", [&](const Call&) {
    carrier().grant(leases);
    throw Error(Remedy::retry, "the connection broke");
  });
  enqueue("a", 1);
  settle_down();
  EXPECT_EQ((Names{"1"}), script_.delivered);
}

TEST_F(CarrierTest, IsNotIdleIfSomethingWasGrantedDuringItsTurn) {
  settle_down();
  EXPECT_TRUE(carrier().idle());
  carrier().news();
  at_next("exchange", [&](const Call& run) {
    run();
    carrier().grant({{.destination = "out", .shard = 7, .term = 1}});
  });
  carrier().step();
  EXPECT_FALSE(carrier().idle());
  EXPECT_FALSE(carrier().waits());
  settle_down();
  EXPECT_TRUE(carrier().idle());
}

TEST_F(CarrierTest, AskedForAShardThatItDoesNotHoldItIsIdleAllTheSame) {
  settle_down();
  carrier().give_back({7});
  settle_down();
  EXPECT_TRUE(carrier().idle());
}

TEST_F(CarrierTest, Row15_AStoreThatTakesConnectionsAndDoesNothingIsNotHammered) {
  settle_down();
  enqueue("a", 1);
  int connects = 0;
  store_.around([&](const StoreCall& call, const Call& run) {
    if (call.name == "connect" || call.name == "join") ++connects;
    if (call.name == "exchange" || call.name == "beat") throw Error(Remedy::retry, "not now");
    run();
  });
  settle_down(6'000);  // a minute
  EXPECT_LT(connects, 200);
  EXPECT_EQ(2, lines("the store is away"));  // The carrier's and the keeper's.
  store_.around({});
  settle_down(500);
  EXPECT_EQ((Names{"1"}), script_.delivered);
  EXPECT_EQ(2, lines("the store is back"));
}

// The lease is lost and a heartbeat says so, all while a payload is being loaded.
TEST_F(CarrierTest, Row74_TrustsNoLeaseThatRanOutDuringItsTurn) {
  settle_down();
  store_.on_reading = [](Reading& reading) {
    for (Chunk& chunk : reading.chunks)
      for (EventView& event : chunk.events) event.payload_deferred = true;
  };
  store_.on_load = [&](EventView& event) {
    clock_.advance(6s);
    const auto other = memory_->join({.id = "other", .name = "other"});
    const std::vector<std::string> names{"out"};
    other->take(other->beat(names).free);
    keeper_.turn();
    event.payload_deferred = false;
  };
  enqueue("a", 1);
  settle_down(5);
  EXPECT_TRUE(script_.attempted.empty());
}

TEST_F(CarrierTest, APayloadThatCannotBeLoadedIsNotWaitedFor) {
  settle_down();
  store_.on_reading = [](Reading& reading) {
    for (Chunk& chunk : reading.chunks)
      for (EventView& event : chunk.events) event.payload_deferred = true;
  };
  int loads = 0;
  store_.on_load = [&](EventView& event) {
    if (++loads == 1) throw Error(Remedy::retry, "the connection broke");
    event.payload_deferred = false;
  };
  enqueue("a", 1);
  settle_down();
  EXPECT_EQ((Names{"1"}), script_.delivered);
  EXPECT_TRUE(carrier().idle());
}

TEST_F(CarrierTest, Row77_PublishesNothingAfterTheMachineHasSlept) {
  settle_down();
  clock_.suspend(10s);
  enqueue("a", 1);
  carrier().step();
  EXPECT_TRUE(script_.attempted.empty());
  settle_down(5);  // The keeper beats at once: the leases are still ours.
  EXPECT_EQ((Names{"1"}), script_.delivered);
}

// A sink that keeps no contract.
class Throws final : public Sink {
 public:
  Throws(int& calls, std::string in, int& delivered) : calls_(calls), in_(std::move(in)), delivered_(delivered) {}
  void submit(const EventView&, std::uint64_t ticket) override {
    throw_in("submit");
    taken_.push_back(ticket);
  }
  void collect(std::vector<Outcome>& outcomes, Steady) override {
    throw_in("collect");
    for (const auto ticket : taken_) outcomes.push_back({.ticket = ticket});
    delivered_ += static_cast<int>(taken_.size());
    taken_.clear();
  }
  void close(Steady) override { taken_.clear(); }

 private:
  void throw_in(const std::string& name) {
    if (name != in_ || ++calls_ > 3) return;
    if (calls_ == 1) throw std::bad_alloc();
    throw std::runtime_error("of the destination's own code");
  }
  int& calls_;
  const std::string in_;
  int& delivered_;
  std::vector<std::uint64_t> taken_;
};

TEST_F(CarrierTest, AnyExceptionOfTheSinkIsATroubleAndItStartsOver) {
  for (const char* const in : {"submit", "collect"}) {
    int calls = 0;
    int delivered = 0;
    carriers_.front() = std::make_unique<Carrier>(context_, trust_, waker_, DestinationOptions{.name = "out"},
                                                  std::make_unique<Throws>(calls, in, delivered));
    for (int i = 0; i < 5; ++i) enqueue(std::to_string(i), i);
    keeper_.turn();
    keeper_.turn();
    for (int i = 0; i < 3 && calls == 0; ++i) carrier().step();
    EXPECT_NE("", carrier().trouble()) << in;
    settle_down(1500);
    EXPECT_EQ(5, delivered) << in;
    EXPECT_EQ("", carrier().trouble()) << in;
    clock_.advance(1h);
  }
}

// A sink that answers for one event at a time and takes its time over it.
class OneAtATime final : public Sink {
 public:
  OneAtATime(ManualClock& clock, int& delivered) : clock_(clock), delivered_(delivered) {}
  void submit(const EventView&, std::uint64_t ticket) override { taken_.push_back(ticket); }
  void collect(std::vector<Outcome>& outcomes, Steady) override {
    if (taken_.empty()) return;
    clock_.advance(1ms);
    outcomes.push_back({.ticket = taken_.front()});
    taken_.pop_front();
    ++delivered_;
  }

 private:
  ManualClock& clock_;
  int& delivered_;
  std::deque<std::uint64_t> taken_;
};

TEST_F(CarrierTest, ASlowSinkDoesNotKeepItFromItsOrders) {
  int delivered = 0;
  carriers_.front() = std::make_unique<Carrier>(context_, trust_, waker_, DestinationOptions{.name = "out"},
                                                std::make_unique<OneAtATime>(clock_, delivered));
  for (int i = 0; i < 400; ++i) enqueue(std::to_string(i), i);
  keeper_.turn();
  carrier().step();
  carrier().step();
  EXPECT_GT(delivered, 0);
  EXPECT_LT(delivered, 30);
}

// On the real clock: what waits for room, and not for a time, must not make the thread spin.
TEST(CarrierOnTheRealClock, AFullLaneWaits) {
  const auto store = memory_store({.shards = 1});
  const auto writer = store->writer();
  for (int i = 0; i < 100; ++i) {
    Event event;
    event.topic = "t";
    event.payload = "1";
    writer->enqueue(std::span(&event, 1));
  }
  writer->commit();
  const RelayContext context{.store = *store,
                             .options = {.batch = 5},
                             .identity = {.id = "one", .name = "one"},
                             .log = Log{},
                             .clock = system_clock()};
  Trust trust;
  Waker waker;
  ScriptedSink::Script script;
  script.away = true;
  std::vector<std::unique_ptr<Carrier>> carriers;
  carriers.push_back(std::make_unique<Carrier>(context, trust, waker, DestinationOptions{.name = "out"},
                                               std::make_unique<ScriptedSink>(script)));
  Vitals vitals;
  Keeper keeper(context, trust, vitals, waker, carriers);
  keeper.turn();
  const Steady end = context.clock.steady() + 500ms;
  int turns = 0;
  for (; context.clock.steady() < end; ++turns)
    if (carriers.front()->step() == 0) carriers.front()->wait(end);
  EXPECT_LT(turns, 100);
}

}  // namespace
}  // namespace waybill
