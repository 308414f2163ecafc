// A server that goes, a network that is bad; and the relay behind it all.
#include <algorithm>
#include <set>
#include <thread>

#include "waybill/memory.h"
#include "waybill/relay.h"

#include "brokers/nats_fixture.h"

namespace waybill {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::SizeIs;

auto says(const std::string& part) {
  return Field(&Outcome::reason, HasSubstr(part));
}

class FaultsTest : public NatsTest {
 protected:
  FaultsTest() { reader_.add(reader_.config("ORDERS", "orders.>")); }

  // Through the proxy, and impatient.
  NatsOptions impatient() {
    NatsOptions options = NatsTest::options(proxy_.port());
    options.connect_timeout = 500ms;
    options.heartbeat = 300ms;
    return options;
  }
  void expect_back(Sink& sink) {
    const Steady deadline = system_clock().steady() + 30s;
    while (sink.probe(system_clock().steady() + 1s).kind != Kind::delivered)
      ASSERT_LT(system_clock().steady(), deadline);
  }

  TmpNats server_;
  TcpProxy proxy_{server_.port()};
  NatsReader reader_{server_};
};

// 40: no RST, no FIN, nothing. Twice the heartbeat, and all that was sent is known to be doubtful.
TEST_F(FaultsTest, Row40_ABlackHoleIsNoticedByTheHeartbeat) {
  const auto sink = nats_sink(impatient(), log());
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  proxy_.black_hole();
  const EventView& second = event("2");
  const Steady begin = system_clock().steady();
  EXPECT_THAT(deliver(*sink, second), AllOf(Is(Kind::unknown), says("no sign of life for 600 ms")));
  EXPECT_GE(system_clock().steady() - begin, 250ms);
  EXPECT_LT(system_clock().steady() - begin, 10s);
  EXPECT_THAT(deliver(*sink, second), AllOf(Is(Kind::unavailable), says("cannot connect")));
  proxy_.reset();
  proxy_.pass();
  expect_back(*sink);
  EXPECT_THAT(deliver(*sink, second), Is(Kind::delivered));
}

// 40: the server greets, and then nothing.
TEST_F(FaultsTest, Row40_AServerThatOnlyGreetsIsGivenUp) {
  proxy_.black_hole(Direction::to_server);
  const auto sink = nats_sink(impatient(), log());
  EXPECT_THAT(deliver(*sink, event("1")), AllOf(Is(Kind::unavailable), says("no answer within 500 ms")));
  proxy_.pass();
  expect_back(*sink);
}

// 40: more than fits into every buffer on the way, and nobody takes it.
TEST_F(FaultsTest, Row40_ABlackHoleUnderLoadIsNoticed) {
  const auto sink = nats_sink(impatient(), log());
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  proxy_.black_hole();
  std::vector<const EventView*> events;
  for (int i = 0; i < 100; ++i) events.push_back(&event(std::string(500'000, 'x')));
  const auto outcomes = deliver(*sink, events);
  EXPECT_THAT(outcomes, SizeIs(100));
  for (const Outcome& outcome : outcomes) EXPECT_NE(Kind::delivered, outcome.kind);
  EXPECT_EQ(Kind::unavailable, outcomes.back().kind) << "what was never written did not arrive";
}

TEST_F(FaultsTest, AnIdleConnectionIsKeptAlive) {
  const auto sink = nats_sink(impatient(), log());
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  std::this_thread::sleep_for(1500ms);
  EXPECT_EQ(1U, proxy_.accepted());
  EXPECT_THAT(deliver(*sink, event("2")), Is(Kind::delivered));
  EXPECT_EQ(1U, proxy_.accepted());
}

// 41: it has arrived, and we do not know. Under its id the stream knows it again.
TEST_F(FaultsTest, Row41_WhoseAckWasLostIsSentAgainUnderItsIdAndStoredOnce) {
  const auto sink = nats_sink(impatient(), log());
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  proxy_.cut_after(0, Direction::to_client);
  const EventView& second = event("2");
  EXPECT_THAT(deliver(*sink, second), AllOf(Is(Kind::unknown), says("its ack did not come")));
  proxy_.pass();
  EXPECT_THAT(deliver(*sink, second), Is(Kind::delivered));
  EXPECT_THAT(reader_.bodies("ORDERS"), ElementsAre("1", "2"));
  EXPECT_THAT(logged(), HasSubstr("repeated=1"));
}

// 42: stored, and never acknowledged, by a server that is well.
TEST_F(FaultsTest, Row42_AnAckThatNeverComesIsGivenUpInTime) {
  auto config = reader_.config("ORDERS", "orders.>");
  config.NoAck = true;
  reader_.update(config);
  auto options = impatient();
  options.ack_timeout = 500ms;
  const auto sink = nats_sink(options, log());
  EXPECT_THAT(deliver(*sink, event("1")), AllOf(Is(Kind::unknown), says("no ack within 500 ms")));
  config.NoAck = false;
  reader_.update(config);
  expect_back(*sink);
  EXPECT_THAT(deliver(*sink, event("2")), Is(Kind::delivered));
  EXPECT_EQ(2U, proxy_.accepted()) << "and by another connection";
}

// 42: others are acknowledged, so it is not the connection.
TEST_F(FaultsTest, Row42_OneAckThatDoesNotComeCostsNoOther) {
  reader_.listen("listeners.>");  // who never answer
  auto options = impatient();
  options.ack_timeout = 700ms;
  const auto sink = nats_sink(options, log());
  submit(*sink, event("1", "listeners.one"));
  std::vector<Outcome> outcomes;
  std::size_t submitted = 1;
  const auto unknown = [&] {
    return std::count_if(outcomes.begin(), outcomes.end(),
                         [](const Outcome& outcome) { return outcome.kind == Kind::unknown; });
  };
  const Steady deadline = system_clock().steady() + 30s;
  while (unknown() == 0 && system_clock().steady() < deadline) {
    submit(*sink, event("x"));
    ++submitted;
    sink->collect(outcomes, deadline);
    std::this_thread::sleep_for(10ms);
  }
  while (outcomes.size() < submitted && system_clock().steady() < deadline) sink->collect(outcomes, deadline);
  EXPECT_THAT(outcomes, SizeIs(submitted));
  EXPECT_EQ(1, unknown());
  EXPECT_EQ(1U, proxy_.accepted());
}

TEST_F(FaultsTest, ASlowServerIsWaitedFor) {
  proxy_.delay(200ms);
  auto options = impatient();
  options.connect_timeout = 10s;
  options.heartbeat = 2s;
  const auto sink = nats_sink(options, log());
  EXPECT_THAT(deliver_many(*sink, 200), Each(Is(Kind::delivered)));
  EXPECT_EQ(1U, proxy_.accepted());
}

// 48
TEST_F(FaultsTest, Row48_AServerThatIsDownMakesEventsWait) {
  const auto sink = nats_sink(impatient(), log());
  proxy_.refuse();
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(deliver(*sink, event("1")), AllOf(Is(Kind::unavailable), says("cannot connect to 127.0.0.1")));
  EXPECT_THAT(sink->probe(system_clock().steady() + 5s), Is(Kind::unavailable));
  proxy_.pass();
  expect_back(*sink);
  EXPECT_THAT(deliver(*sink, event("2")), Is(Kind::delivered));
}

TEST_F(FaultsTest, OfSeveralServersOneThatIsThereIsUsed) {
  TcpProxy other(server_.port());
  auto options = impatient();
  options.servers.push_back({.name = "127.0.0.1", .port = other.port()});
  proxy_.refuse();
  const auto sink = nats_sink(options, log());
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  other.refuse();
  proxy_.pass();
  const EventView& second = event("2");
  const Steady deadline = system_clock().steady() + 30s;
  // That the connection is lost may be found out only with the first.
  while (deliver(*sink, second).kind != Kind::delivered) ASSERT_LT(system_clock().steady(), deadline);
}

// It says that it is about to stop: what was sent is answered, the rest is for another connection.
TEST_F(FaultsTest, AServerThatIsAboutToStopIsLeftInOrder) {
  TmpNats second;
  auto options = impatient();
  options.stream = {.name = "ORDERS", .create = true, .subjects = {"orders.>"}};
  options.servers.push_back({.name = "127.0.0.1", .port = second.port()});
  const auto sink = nats_sink(options, log());
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  server_.begin_lame_duck_mode();
  NatsReader reader(second);
  const auto is_there = [&] {
    try {
      return reader.count("ORDERS") > 0;
    } catch (const std::runtime_error&) {
      return false;
    }
  };
  const Steady deadline = system_clock().steady() + 30s;
  while (!is_there()) {
    ASSERT_LT(system_clock().steady(), deadline);
    EXPECT_NE(Kind::unknown, deliver(*sink, event("x")).kind);
  }
}

// --- With a relay

class NatsRelayTest : public FaultsTest {
 protected:
  void SetUp() override {
    relay_.add({.name = "nats", .retry = {.first_delay = 10ms, .max_delay = 200ms}}, nats_sink(impatient(), log()));
    thread_ = std::jthread([this](const std::stop_token& stop) { relay_.run(stop); });
  }
  void TearDown() override {
    thread_.request_stop();
    thread_.join();
  }

  void enqueue(int count) {
    std::vector<Event> events;
    for (int i = 0; i < count; ++i) {
      ++last_;
      Event event;
      event.topic = "orders.paid";
      event.key = "k" + std::to_string(last_ % keys);
      event.payload = std::to_string(last_);
      events.push_back(std::move(event));
    }
    const auto writer = store_->writer();
    writer->enqueue(events);
    writer->commit();
    relay_.hint();
  }
  bool comes_true(const std::function<bool()>& condition) {
    const Steady deadline = system_clock().steady() + 60s;
    while (!condition())
      if (system_clock().steady() > deadline)
        return false;
      else
        std::this_thread::sleep_for(5ms);
    return true;
  }
  bool all_delivered() { return relay_.counts("nats").delivered >= static_cast<std::uint64_t>(last_); }

  // Everything is in the stream, and the first of each event after the first of its predecessor.
  void expect_all_in_order(NatsReader& reader) {
    std::set<int> seen;
    std::map<int, int> newest;
    for (const std::string& body : reader.bodies("ORDERS")) {
      const int number = std::stoi(body);
      if (!seen.insert(number).second) continue;
      EXPECT_LT(std::exchange(newest[number % keys], number), number) << "key " << number % keys;
    }
    EXPECT_THAT(seen, SizeIs(last_));
    EXPECT_THAT(store_->inspector()->undelivered({}).events, testing::IsEmpty());
    EXPECT_EQ(0U, relay_.counts("nats").dead);
  }

  static constexpr int keys = 20;
  int last_ = 0;
  std::unique_ptr<Store> store_ = memory_store();
  Relay relay_{*store_, {}};
  std::jthread thread_;
};

// 39
TEST_F(NatsRelayTest, Row39_AServerThatRestartsUnderLoadIsUsedAgainWithinFiveSeconds) {
  for (int restart = 0; restart < 4; ++restart) {
    enqueue(300);
    ASSERT_TRUE(comes_true([&] { return relay_.counts("nats").delivered > static_cast<std::uint64_t>(last_ - 300); }));
    restart % 2 == 0 ? server_.kill() : server_.stop();
    enqueue(100);
    server_.start();
    const Steady back = system_clock().steady();
    const auto before = relay_.counts("nats").delivered;
    ASSERT_TRUE(comes_true([&] { return relay_.counts("nats").delivered > before; }));
    EXPECT_LT(system_clock().steady() - back, 8s);  // 5, and some for a busy machine
    ASSERT_TRUE(comes_true([&] { return all_delivered(); }));
  }
  NatsReader reader(server_);
  expect_all_in_order(reader);
}

// 59: not a single attempt is used up, however often it is tried.
TEST_F(NatsRelayTest, Row59_AFullStreamUsesUpNoAttempts) {
  auto config = reader_.config("ORDERS", "orders.>");
  config.MaxMsgs = 5;
  config.Discard = js_DiscardNew;
  reader_.update(config);
  enqueue(12);
  ASSERT_TRUE(comes_true([&] { return relay_.counts("nats").breaker.open; }));
  ASSERT_TRUE(comes_true([&] { return relay_.counts("nats").failed_with[Kind::unavailable] >= 4; }));
  EXPECT_THAT(relay_.counts("nats").breaker.reason, HasSubstr("maximum messages exceeded"));
  config.MaxMsgs = -1;
  reader_.update(config);
  ASSERT_TRUE(comes_true([&] { return all_delivered(); }));
  expect_all_in_order(reader_);
  EXPECT_EQ(0U, relay_.counts("nats").failed_with[Kind::retry]);
}

// 41
TEST_F(NatsRelayTest, Row41_ConnectionsThatAreResetLoseNothing) {
  for (int i = 0; i < 10; ++i) {
    enqueue(100);
    std::this_thread::sleep_for(20ms);
    proxy_.reset();
  }
  ASSERT_TRUE(comes_true([&] { return all_delivered(); }));
  expect_all_in_order(reader_);
  EXPECT_EQ(static_cast<std::uint64_t>(last_), reader_.count("ORDERS")) << "and the stream keeps each once";
}

}  // namespace
}  // namespace waybill
