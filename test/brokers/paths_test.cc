// The ways between a real PostgreSQL, a relay and real brokers: slow, cut on one side or the other, with names of
// several addresses, and used by many at once.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "waybill/relay.h"

#include "brokers/nats_fixture.h"
#include "brokers/rabbitmq_fixture.h"
#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

constexpr auto patience = 60s;
constexpr const char* stream = "EVENTS";

TmpNats& shared_nats() {
  static TmpNats made;
  return made;
}

// A relay on a thread of its own.
class Running {
 public:
  Running(Store& store, std::vector<std::pair<std::string, std::unique_ptr<Sink>>> destinations,
          std::chrono::milliseconds lease = 5s)
      : Running(store, std::move(destinations), RelayOptions{.lease = lease, .grace = 1s}) {}
  Running(Store& store, std::vector<std::pair<std::string, std::unique_ptr<Sink>>> destinations, RelayOptions options)
      : relay_(store, std::move(options)) {
    for (auto& [name, sink] : destinations) relay_.add({.name = name, .retry = {.attempts = 3}}, std::move(sink));
    thread_ = std::jthread([this](const std::stop_token& stop) { relay_.run(stop); });
  }
  RelayCounts counts(const std::string& destination) const { return relay_.counts(destination); }

 private:
  Relay relay_;
  std::jthread thread_;
};

std::vector<std::pair<std::string, std::unique_ptr<Sink>>> to(const std::string& name, std::unique_ptr<Sink> sink) {
  std::vector<std::pair<std::string, std::unique_ptr<Sink>>> destinations;
  destinations.emplace_back(name, std::move(sink));
  return destinations;
}

// Sends one event at a time, at most one in 20 ms, and notes when.
class PacedSink final : public Sink {
 public:
  struct Notes {
    std::atomic<std::uint64_t> sent{0};
    std::atomic<Steady> first{Steady::max()};
    std::atomic<Steady> last{Steady::min()};
  };
  PacedSink(std::unique_ptr<Sink> target, Notes& notes) : target_(std::move(target)), notes_(notes) {}

  void submit(const EventView& event, std::uint64_t ticket) override {
    const Steady now = std::chrono::steady_clock::now();
    if (notes_.sent++ == 0) notes_.first = now;
    notes_.last = now;
    target_->submit(event, ticket);
  }
  void collect(std::vector<Outcome>& outcomes, Steady deadline) override {
    std::this_thread::sleep_until(notes_.last.load() + 20ms);
    target_->collect(outcomes, deadline);
  }
  std::size_t in_flight_max() const override { return 1; }
  Outcome probe(Steady deadline) override { return target_->probe(deadline); }
  void close(Steady deadline) override { target_->close(deadline); }

 private:
  std::unique_ptr<Sink> target_;
  Notes& notes_;
};

class PathsTest : public PostgresTest {
 protected:
  PathsTest() : PostgresTest(2) { nats_.add(nats_.config(stream, "orders.>")); }
  ~PathsTest() override { nats_.remove(stream); }

  static std::unique_ptr<Sink> nats(std::vector<net::Host> servers) {
    NatsOptions options;
    options.servers = std::move(servers);
    options.encode = encoder({.envelope = Envelope::raw}, bindings::nats);
    options.stream.name = stream;
    options.heartbeat = 1s;
    return nats_sink(std::move(options), {});
  }
  static std::unique_ptr<Sink> nats(std::uint16_t port) { return nats({{.name = "127.0.0.1", .port = port}}); }
  // To an exchange that nobody reads.
  static std::unique_ptr<Sink> rabbitmq(std::vector<net::Host> hosts) {
    RabbitmqOptions options;
    options.name = "rabbitmq";
    options.hosts = std::move(hosts);
    options.password = "guest";
    options.exchange.emplace("paths", addresses::exchange);
    options.fixed_exchange = "paths";
    options.routing_key.emplace("{topic}", addresses::routing_key);
    options.encode = encoder({.envelope = Envelope::raw}, bindings::amqp);
    return rabbitmq_sink(std::move(options), {});
  }

  // Keys take turns, payloads count.
  void enqueue_orders(int count, std::size_t bytes = 0) {
    std::vector<Event> events;
    for (int i = 0; i < count; ++i) {
      Event& event = events.emplace_back();
      event.topic = "orders.paid";
      event.payload = fmt::format("\"{:0{}}\"", ++last_, std::max<std::size_t>(bytes, 1));
      event.key = "k" + std::to_string(last_ % keys);
    }
    enqueue(app.raw(), events);
  }

  // Everything has come to the stream, and of each key in order, if only the first time that something came counts.
  void expect_all_in_order() {
    std::set<int> seen;
    std::map<int, int> newest;
    for (const std::string& body : nats_.bodies(stream)) {
      const int number = std::stoi(body.substr(1));
      if (!seen.insert(number).second) continue;
      EXPECT_LT(std::exchange(newest[number % keys], number), number) << "key " << number % keys;
    }
    EXPECT_EQ(static_cast<std::size_t>(last_), seen.size());
  }
  bool all_in_stream() {
    return eventually([&] { return nats_.count(stream) >= static_cast<std::uint64_t>(last_); }, patience);
  }
  std::string terms() { return app("SELECT string_agg(term::text, ' ' ORDER BY shard) FROM waybill.lease"); }

  // The store behind a proxy.
  std::string through(std::uint16_t port) const {
    const std::string here = ":" + std::to_string(server.port());
    std::string there = url;
    return there.replace(there.find(here), here.size(), ":" + std::to_string(port));
  }

  static constexpr int keys = 20;
  NatsReader nats_{shared_nats()};
  int last_ = 0;
};

// A sanitizer keeps what was freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t memory_kept = std::size_t{1} << 30U;
#else
constexpr std::size_t memory_kept = 0;
#endif

std::size_t resident_bytes() {
  std::size_t size = 0;
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> size >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// What a stream has stored, as after a disk that was not what it said.
void truncate_to_half(const std::string& folder) {
  int blocks = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".blk" || entry.path().string().find(stream) == std::string::npos) continue;
    std::filesystem::resize_file(entry.path(), entry.file_size() / 2);
    ++blocks;
  }
  ASSERT_GT(blocks, 0);
}

TEST_F(PathsTest, Row43_ASlowBrokerCostsNoMemoryAndNoOtherDestination) {
  RabbitmqClient client(shared_rabbitmq().port());
  client.declare_exchange("paths");
  client.declare_queue("paths");
  client.bind("paths", "paths", "#");
  TcpProxy slow(shared_rabbitmq().port());
  auto destinations = to("nats", nats(shared_nats().port()));
  destinations.emplace_back("rabbitmq", rabbitmq({{"127.0.0.1", slow.port()}}));
  enqueue_orders(100);
  const Running relay(*store, std::move(destinations));
  ASSERT_TRUE(eventually([&] { return relay.counts("rabbitmq").delivered == 100; }, patience));
  slow.delay(500ms);  // Each way: of a key one event a second.
  const std::size_t before = resident_bytes();
  for (int i = 0; i < 10; ++i) enqueue_orders(1'500, 8'000);  // 120 MB
  ASSERT_TRUE(all_in_stream());
  EXPECT_LT(resident_bytes() - before, (std::size_t{100} << 20U) + memory_kept);  // Two read ahead 32 MiB each.
  EXPECT_LT(relay.counts("rabbitmq").delivered, 10'000U);
  EXPECT_EQ(0U, relay.counts("rabbitmq").dead);
  expect_all_in_order();
}

TEST_F(PathsTest, Row44_CutOffFromTheBrokerARelayKeepsItsLeases) {
  TcpProxy proxy(shared_nats().port());
  const Running relay(*store, to("nats", nats(proxy.port())), 1s);
  enqueue_orders(100);
  ASSERT_TRUE(all_in_stream());
  const std::string before = terms();
  const Running other(*store, to("other", nats(shared_nats().port())), 1s);  // Somebody who could tell that it is away.
  proxy.black_hole();
  enqueue_orders(500);
  ASSERT_TRUE(eventually([&] { return relay.counts("nats").breaker.open; }, patience));
  const std::string cut = app("SELECT clock_timestamp()");
  ASSERT_TRUE(eventually(
      [&] {
        return app("SELECT bool_and(last_seen > '" + cut + "'::timestamptz + interval '3 s') FROM waybill.relay") ==
               "t";
      },
      patience));
  EXPECT_EQ(before, app("SELECT string_agg(term::text, ' ' ORDER BY shard) FROM waybill.lease "
                        "WHERE destination = 'nats'"));
  proxy.pass();
  ASSERT_TRUE(eventually([&] { return relay.counts("nats").delivered == 600; }, patience));
  EXPECT_EQ(0U, relay.counts("nats").dead);
  expect_all_in_order();
}

// The first has read ahead for seconds, and need not ask the store for anything meanwhile: that it stops is its lease's
// doing, and nothing else's.
TEST_F(PathsTest, Row44_CutOffFromTheStoreARelayStopsBeforeAnotherTakesOver) {
  TcpProxy proxy(static_cast<std::uint16_t>(server.port()));
  const auto behind = postgres_store({.url = through(proxy.port()), .shards = 2});
  enqueue_orders(300, 8'000);
  PacedSink::Notes by_first;
  PacedSink::Notes by_second;
  const RelayOptions ahead{.read_ahead_bytes_max = 1 << 20, .settle_interval = 10s, .lease = 1'500ms, .grace = 1s};
  const Running first(*behind, to("nats", std::make_unique<PacedSink>(nats(shared_nats().port()), by_first)), ahead);
  ASSERT_TRUE(eventually([&] { return by_first.sent >= 5; }, patience));
  proxy.black_hole();
  const std::uint64_t at_the_cut = by_first.sent;
  const Running second(*store, to("nats", std::make_unique<PacedSink>(nats(shared_nats().port()), by_second)), 1'500ms);
  ASSERT_TRUE(eventually([&] { return by_second.sent > 0; }, patience));
  const std::uint64_t when_taken_over = by_first.sent;
  EXPECT_GT(when_taken_over, at_the_cut + 5);  // It did not stop at the cut: nothing is wrong with its destination,
  EXPECT_LT(when_taken_over, 100U);            // and it had more to send.
  EXPECT_LT(by_first.last.load(), by_second.first.load());
  ASSERT_TRUE(eventually([&] { return by_second.sent >= 20; }, patience));
  EXPECT_EQ(when_taken_over, by_first.sent);
  proxy.pass();
  ASSERT_TRUE(all_in_stream());
  expect_all_in_order();
}

// Where both servers listen, and where the first of a list does not exist; localhost is first ::1 on most machines,
// where they do not listen.
TEST_F(PathsTest, Row45_EveryNameAndEveryAddressOfANameIsTried) {
  RabbitmqClient client(shared_rabbitmq().port());
  client.declare_exchange("paths");
  client.declare_queue("paths");
  client.bind("paths", "paths", "#");
  const std::uint16_t nats_port = shared_nats().port();
  const std::uint16_t rabbitmq_port = shared_rabbitmq().port();
  auto destinations = to("nats", nats({{.name = "nobody.invalid", .port = nats_port}, {"localhost", nats_port}}));
  destinations.emplace_back("rabbitmq", rabbitmq({{"nobody.invalid", rabbitmq_port}, {"localhost", rabbitmq_port}}));
  const Running relay(*store, std::move(destinations));
  enqueue_orders(10);
  for (const char* name : {"nats", "rabbitmq"})
    EXPECT_TRUE(eventually([&] { return relay.counts(name).delivered == 10; }, patience)) << name;
}

// The relay has its acks, and the broker has lost what it acknowledged: a person sends it again.
TEST_F(PathsTest, Row60_WhatABrokersDiskHasLostComesByARewind) {
  TmpNats lossy;
  {
    NatsReader reader(lossy);
    reader.add(reader.config(stream, "orders.>"));
  }
  const Running relay(*store, to("nats", nats(lossy.port())));
  enqueue_orders(1'000, 500);
  ASSERT_TRUE(eventually([&] { return relay.counts("nats").delivered == 1'000; }, patience));
  lossy.kill();
  truncate_to_half(lossy.folder());
  lossy.start();
  {
    NatsReader reader(lossy);
    ASSERT_LT(reader.count(stream), 1'000U);
  }
  EXPECT_TRUE(store->inspector()->undelivered({.limit = 10}).events.empty());
  store->operate()->rewind({.id = EventId::make(), .by = "me"}, "nats", {}, false);
  EXPECT_TRUE(eventually([&] { return NatsReader(lossy).count(stream) >= 1'000; }, patience));
  std::set<std::string> bodies;
  for (const std::string& body : NatsReader(lossy).bodies(stream)) bodies.insert(body);
  EXPECT_EQ(1'000U, bodies.size());
}

TEST_F(PathsTest, Row49_ManyDestinationsComeBackFiftyASecond) {
  constexpr int destinations = 150;
  TcpProxy proxy(shared_nats().port());
  std::vector<std::pair<std::string, std::unique_ptr<Sink>>> many;
  for (int i = 0; i < destinations; ++i) many.emplace_back("nats" + std::to_string(i), nats(proxy.port()));
  const Running relay(*store, std::move(many));
  const auto all = [&](std::uint64_t count) {
    for (int i = 0; i < destinations; ++i)
      if (relay.counts("nats" + std::to_string(i)).delivered < count) return false;
    return true;
  };
  enqueue_orders(1);
  ASSERT_TRUE(eventually([&] { return all(1); }, patience));
  proxy.refuse();
  enqueue_orders(1);
  const auto all_away = [&] {
    for (int i = 0; i < destinations; ++i)
      if (!relay.counts("nats" + std::to_string(i)).breaker.open) return false;
    return true;
  };
  ASSERT_TRUE(eventually(all_away, patience));
  const std::size_t before = proxy.accepted();
  const auto start = std::chrono::steady_clock::now();
  proxy.pass();
  ASSERT_TRUE(eventually([&] { return all(2); }, patience));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(proxy.accepted() - before, std::size_t{destinations});
  EXPECT_LE(proxy.accepted() - before, static_cast<std::size_t>(50 + 51 * took.count()));
}

}  // namespace
}  // namespace waybill
