// From a real broker into a real database, with everything that may happen in between. Linked with the kit of a broker.

#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "waybill/consume.h"

#include "consume/broker_kit.h"
#include "service/databases.h"
#include "support/child_process.h"
#include "support/tcp_proxy.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

constexpr auto patience = 60s;

bool eventually(const std::function<bool()>& holds) {
  const Steady end = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

class ConsumeSuite : public DatabaseTest {
 protected:
  ConsumeSuite() {
    db->script("CREATE TABLE effect (message text NOT NULL)");
    broker().make_queue(queue_);
  }
  ~ConsumeSuite() override { stop(); }

  // Published with the ids m-1, m-2, … which the payload tells.
  void publish(int count, const std::string& key = "k", Envelope envelope = Envelope::cloudevents) {
    if (!sink_ || envelope != envelope_) sink_ = broker().sink(queue_, envelope);
    envelope_ = envelope;
    for (int i = 0; i < count; ++i) {
      Sent& sent = sent_.emplace_back();
      sent.key = key;
      sent.payload = '"' + key + "-" + std::to_string(++numbers_[key]) + '"';
      sent.event = {.seq = static_cast<std::int64_t>(sent_.size()),
                    .id = EventId::make(),
                    .tenant = "default",
                    .topic = "orders",
                    .type = "order.paid",
                    .key = sent.key,
                    .payload = sent.payload,
                    .content_type = "application/json",
                    .metadata = "{}",
                    .headers = R"({"note":"Jörg 100 %","plain":"50 %"})",
                    .occurred_at = system_clock().now()};
      if (envelope == Envelope::masstransit) sent.event.payload = "{}";
      sink_->submit(sent.event, sent_.size());
    }
    std::vector<Outcome> outcomes;
    const Steady end = std::chrono::steady_clock::now() + patience;
    while (std::ssize(outcomes) < count && std::chrono::steady_clock::now() < end) sink_->collect(outcomes, end);
    ASSERT_EQ(count, std::ssize(outcomes));
    for (const Outcome& outcome : outcomes) ASSERT_EQ(Outcome::Kind::delivered, outcome.kind) << outcome.reason;
  }

  Log log() {
    return Log([this](LogLevel, std::string_view text, std::span<const LogField> fields) {
      const std::scoped_lock lock(mutex_);
      logged_ += text;
      for (const auto& field : fields) (logged_ += ' ').append(field.name).append("=").append(field.value);
      logged_ += '\n';
    });
  }
  std::string logged() {
    const std::scoped_lock lock(mutex_);
    return logged_;
  }

  // A consumer in a thread of its own, until stop().
  void start(HandleDelivery handle, SourceWanted wanted = {}, const std::string& database = "") {
    if (wanted.ports.empty()) wanted.ports = {broker().port()};
    wanted.queue = queue_;
    line_ = connect(database.empty() ? url : database);
    consumer_ = std::make_unique<Consumer>(
        ConsumerOptions{.name = "test", .attempts = 3, .first_delay = 1ms, .max_delay = 20ms}, *line_,
        make_source(wanted, log()), std::move(handle), log());
    stop_ = std::stop_source();
    thread_ = std::thread([this] { consumer_->run(stop_.get_token()); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    stop_.request_stop();
    thread_.join();
  }
  ConsumerCounts counts() const { return consumer_->counts(); }

  static void take_effect(Connection& line, const Delivery& delivery) {
    line.run("INSERT INTO effect (message) VALUES ($1)", delivery.event.payload);
  }

  struct Sent {
    std::string key{};
    std::string payload{};
    EventView event{};
  };

  const std::string queue_ = [] {
    static int number = 0;
    return "q" + std::to_string(::getpid()) + "_" + std::to_string(++number);
  }();
  std::deque<Sent> sent_;
  std::map<std::string, int> numbers_;
  std::unique_ptr<Sink> sink_;
  Envelope envelope_ = Envelope::cloudevents;
  std::unique_ptr<Connection> line_;
  std::unique_ptr<Consumer> consumer_;
  std::stop_source stop_;
  std::thread thread_;
  std::mutex mutex_;
  std::string logged_;  // guarded by mutex_
};

INSTANTIATE_TEST_SUITE_P(Databases, ConsumeSuite, testing::Values("postgres", "sqlite"), database_name);

TEST_P(ConsumeSuite, EveryEnvelopeArrives) {
  std::vector<std::string> seen;
  std::string own_headers;
  start([&](Connection&, const Delivery& delivery) {
    seen.push_back(delivery.id + " " + delivery.event.payload + (delivery.event.type.empty() ? " without type" : ""));
    for (const Header& header : delivery.headers)
      if (header.name == "note" || header.name == "plain") own_headers += header.name + "=" + header.value + ";";
  });
  std::vector<std::string> wanted;
  for (const Envelope envelope : {Envelope::cloudevents, Envelope::cloudevents_structured, Envelope::waybill,
                                  Envelope::raw, Envelope::masstransit}) {
    publish(1, "k", envelope);
    wanted.push_back(sent_.back().event.id.to_string() + " " + std::string(sent_.back().event.payload));
  }
  EXPECT_TRUE(eventually([&] { return counts().handled == 5; })) << logged();
  stop();
  EXPECT_EQ(wanted, seen);
  std::string expected;
  for (std::size_t i = 0; i < wanted.size(); ++i) expected += "note=Jörg 100 %;plain=50 %;";
  EXPECT_EQ(expected, own_headers) << "whatever the protocol does to what is not ASCII";
  EXPECT_TRUE(eventually([&] { return broker().unsettled(queue_) == 0; }));
}

TEST_P(ConsumeSuite, Row84_WhatIsCutBetweenCommitAndAckHasItsEffectOnce) {
  TcpProxy proxy(broker().port());
  std::atomic<bool> cut{true};
  publish(3);
  start(
      [&](Connection& line, const Delivery& delivery) {
        take_effect(line, delivery);
        // What is said to the broker next, the acknowledgement, ends the connection.
        if (cut.exchange(false)) proxy.cut_after(0, Direction::to_server);
      },
      {.ports = {proxy.port()}, .prefetch = 1, .ack_wait = 1s});
  ASSERT_TRUE(eventually([&] { return counts().outages == 1; })) << logged();
  proxy.pass();
  ASSERT_TRUE(eventually([&] { return counts().handled == 3 && counts().duplicates >= 1; })) << logged();
  stop();
  EXPECT_EQ(3, count("effect"));
  EXPECT_TRUE(eventually([&] { return broker().unsettled(queue_) == 0; }));
  EXPECT_THAT(logged(), HasSubstr("the connection to the broker is over"));
}

TEST_P(ConsumeSuite, Row84_WhateverIsKilledEachEffectIsThereOnce) {
  constexpr int messages = 60;
  constexpr int kills = 3;
  publish(messages);
  const TmpFolder folder;
  for (int i = 0; i <= kills; ++i) {
    ChildProcess child({WAYBILL_KILLED_CONSUMER, url, std::to_string(broker().port()), queue_}, folder.path() + "/log");
    const auto wanted = i < kills ? (i + 1) * messages / (kills + 1) : messages;
    EXPECT_TRUE(eventually([&] { return count("effect") >= wanted; })) << "after " << i << " kills";
    if (i == kills) {
      EXPECT_TRUE(eventually([&] { return broker().unsettled(queue_) == 0; })) << "what is done is acknowledged";
    }
    child.signal(SIGKILL);
    child.wait();
  }
  EXPECT_EQ(messages, count("effect"));
  EXPECT_EQ(messages, db->run("SELECT count(DISTINCT message) FROM effect").integer(0, 0));
}

TEST_P(ConsumeSuite, Row80_APoisonedMessageGoesToTheDeadLetters) {
  publish(3);
  start([&](Connection& line, const Delivery& delivery) {
    if (delivery.event.payload == "\"k-2\"") throw std::runtime_error("a secret");
    take_effect(line, delivery);
  });
  ASSERT_TRUE(eventually([&] { return counts().handled == 2 && counts().rejected == 1; })) << logged();
  stop();
  EXPECT_EQ(2, count("effect"));
  EXPECT_TRUE(eventually([&] { return broker().dead(queue_) == 1; }));
  EXPECT_TRUE(eventually([&] { return broker().unsettled(queue_) == 0; }));
  EXPECT_EQ(3U, counts().failed);
  EXPECT_THAT(logged(), Not(HasSubstr("a secret")));
}

TEST_P(ConsumeSuite, WhileTheStoreIsAwayNothingIsSentBack) {
  if (sqlite()) return;  // A file does not go away.
  TcpProxy proxy(static_cast<std::uint16_t>(TmpPostgres::shared().port()));
  const std::string port = ":" + std::to_string(TmpPostgres::shared().port()) + "/";
  std::string through = url;
  ASSERT_NE(std::string::npos, through.find(port)) << url;
  through.replace(through.find(port), port.size(), ":" + std::to_string(proxy.port()) + "/");
  start(take_effect, {.ack_wait = 2s}, through);
  publish(1);
  ASSERT_TRUE(eventually([&] { return counts().handled == 1; })) << logged();
  proxy.refuse();
  publish(5);
  ASSERT_TRUE(eventually([&] { return counts().store_away; })) << logged();
  std::this_thread::sleep_for(3s);  // Longer than the broker waits for a sign of us.
  EXPECT_EQ(0U, counts().rejected);
  proxy.pass();
  ASSERT_TRUE(eventually([&] { return counts().handled == 6; })) << logged();
  EXPECT_EQ(6U, counts().received) << "they stayed here";
  stop();
  EXPECT_EQ(6, count("effect"));
}

TEST_P(ConsumeSuite, ABrokerThatIsStartedAnewIsFoundAgain) {
  if (sqlite()) return;  // It is not about the database, and takes its time.
  start(take_effect);
  publish(2);
  ASSERT_TRUE(eventually([&] { return counts().handled == 2; })) << logged();
  sink_.reset();
  broker().restart();
  publish(2);
  ASSERT_TRUE(eventually([&] { return counts().handled == 4; })) << logged();
  EXPECT_GE(counts().outages, 1U);
  EXPECT_FALSE(counts().broker_away);
  stop();
  EXPECT_EQ(4, count("effect"));
}

// Failures and lost connections do not bring the messages of a key out of order.
TEST_P(ConsumeSuite, TheOrderOfAKeyIsKept) {
  constexpr int rounds = 15;
  const std::vector<std::string> keys{"a", "b", "c"};
  for (int i = 0; i < rounds; ++i)
    for (const auto& key : keys) publish(1, key);
  TcpProxy proxy(broker().port());
  std::map<std::string, int> calls;
  std::vector<std::string> order;
  start(
      [&](Connection& line, const Delivery& delivery) {
        const int call = ++calls[delivery.event.payload];
        const bool fails = delivery.event.payload.find('3') != std::string::npos;
        if (fails && call == 1) throw std::runtime_error("not yet");
        take_effect(line, delivery);
        order.push_back(delivery.event.payload);
        if (order.size() == 10 || order.size() == 25) proxy.reset();
      },
      // One at a time where that is what keeps the order; see the sources' headers.
      {.ports = {proxy.port()}, .prefetch = static_cast<std::uint16_t>(WAYBILL_ORDERED_PREFETCH), .ack_wait = 1s});
  ASSERT_TRUE(eventually([&] { return counts().handled == rounds * keys.size(); })) << logged();
  stop();
  for (const auto& key : keys) {
    std::vector<int> numbers;
    for (const std::string& payload : order)
      if (payload[1] == key[0]) numbers.push_back(std::stoi(payload.substr(3)));
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end())) << testing::PrintToString(order);
  }
  EXPECT_GT(counts().outages, 0U);
}

TEST_P(ConsumeSuite, WhatItReadsFromMayGoAndComeBack) {
  start(take_effect);
  publish(1);
  ASSERT_TRUE(eventually([&] { return counts().handled == 1; })) << logged();
  broker().remove(queue_);
  ASSERT_TRUE(eventually([&] { return counts().broker_away; })) << logged();
  ASSERT_TRUE(eventually([&] { return logged().find("no messages can be received") != std::string::npos; }))
      << logged();
  broker().make_queue(queue_);
  publish(1);
  ASSERT_TRUE(eventually([&] { return counts().handled == 2; })) << logged();
  stop();
  EXPECT_EQ(2, count("effect"));
}

// Longer than the broker waits for a sign of us.
TEST_P(ConsumeSuite, ASlowHandlerIsNotDisturbed) {
  if (sqlite()) return;  // It is not about the database, and takes its time.
  TcpProxy proxy(broker().port());
  publish(2);
  start(
      [&](Connection& line, const Delivery& delivery) {
        std::this_thread::sleep_for(5s);
        take_effect(line, delivery);
      },
      {.ports = {proxy.port()}, .ack_wait = 3s, .heartbeat = 2s});
  ASSERT_TRUE(eventually([&] { return counts().handled == 2; })) << logged();
  EXPECT_EQ(2U, counts().received) << logged();
  EXPECT_EQ(1U, proxy.accepted());
  stop();
}

TEST_P(ConsumeSuite, WhoeverStopsLeavesTheRestToTheNext) {
  publish(10);
  std::atomic<bool> begun{false};
  const SourceWanted wanted{.ack_wait = broker().hands_out_again_at_once() ? 30s : 2s};
  start(
      [&](Connection& line, const Delivery& delivery) {
        begun = true;
        while (!stop_.stop_requested()) std::this_thread::sleep_for(1ms);
        take_effect(line, delivery);
      },
      wanted);
  ASSERT_TRUE(eventually([&] { return begun.load(); }));
  stop();
  EXPECT_EQ(1, count("effect")) << "the one at hand was finished";
  start(take_effect, wanted);
  ASSERT_TRUE(eventually([&] { return counts().handled == 9; })) << logged();
  if (broker().hands_out_again_at_once()) {
    EXPECT_EQ(0U, counts().duplicates) << "and acknowledged";
  }
  stop();
  EXPECT_EQ(10, count("effect"));
  EXPECT_TRUE(eventually([&] { return broker().unsettled(queue_) == 0; }));
}

TEST_P(ConsumeSuite, AnotherHostIsTriedIfOneIsAway) {
  publish(1);
  start(take_effect, {.ports = {static_cast<std::uint16_t>(free_port()), broker().port()}});
  EXPECT_TRUE(eventually([&] { return counts().handled == 1; })) << logged();
  stop();
}

TEST_P(ConsumeSuite, WhatIsNotSetUpIsSaidAtTheBeginning) {
  Consumer consumer({.name = "test"}, *db, make_source({.ports = {broker().port()}, .queue = "nowhere"}, {}),
                    take_effect, {});
  EXPECT_EQ(Remedy::fix_config, refusal([&] { consumer.run({}); }));
}

}  // namespace
}  // namespace waybill
