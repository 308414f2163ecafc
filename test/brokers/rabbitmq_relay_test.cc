// A relay, the sink for RabbitMQ and a real broker that comes and goes: nothing is lost, and keys keep their order.
#include "waybill/memory.h"
#include "waybill/relay.h"

#include "brokers/rabbitmq_fixture.h"

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RabbitmqRelayTest : public RabbitmqTest {
 protected:
  void start(RabbitmqOptions options, DestinationOptions destination = {}) {
    destination.name = "events";
    relay_ = std::make_unique<Relay>(*store_, RelayOptions{.grace = 1s});
    relay_->add(destination, rabbitmq_sink(std::move(options), {}));
    thread_ = std::jthread([this](const std::stop_token& stop) { relay_->run(stop); });
  }
  void end() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
  }
  ~RabbitmqRelayTest() override { end(); }

  // Keys take turns, payloads count.
  void enqueue(int count) {
    std::vector<Event> events;
    for (int i = 0; i < count; ++i) {
      Event& event = events.emplace_back();
      event.topic = "orders";
      event.payload = std::to_string(++last_);
      event.key = "k" + std::to_string(last_ % keys);
    }
    const auto writer = store_->writer();
    writer->enqueue(events);
    writer->commit();
    relay_->hint();
  }

  template <typename Condition>
  bool eventually(const Condition& condition) {
    for (const Steady end = std::chrono::steady_clock::now() + patience; std::chrono::steady_clock::now() < end;) {
      if (condition()) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
  bool all_delivered() {
    return eventually([&] { return relay_->counts("events").delivered >= static_cast<std::uint64_t>(last_); });
  }

  // Everything has come, and of each key in order, if only the first time that something came counts.
  void expect_all_in_order() {
    RabbitmqClient client(server().port());
    std::set<int> seen;
    std::map<int, int> newest;
    for (const auto& message : client.drain(queue_)) {
      const int number = std::stoi(message.body);
      if (!seen.insert(number).second) continue;
      EXPECT_LT(std::exchange(newest[number % keys], number), number) << "key " << number % keys;
    }
    EXPECT_EQ(static_cast<std::size_t>(last_), seen.size());
  }
  std::vector<UndeliveredView> undelivered() { return store_->inspector()->undelivered({.limit = 1'000}).events; }

  static constexpr int keys = 50;
  std::unique_ptr<Store> store_ = memory_store({.shards = 2});
  std::unique_ptr<Relay> relay_;
  std::jthread thread_;
  int last_ = 0;
};

TEST_F(RabbitmqRelayTest, Row39_48_ABrokerThatStopsUnderLoadIsUsedAgainWithinFiveSeconds) {
  use_classic_queue();
  start(options());
  enqueue(3'000);
  ASSERT_TRUE(eventually([&] { return relay_->counts("events").delivered > 100; }));
  server().kill();
  enqueue(1'000);
  ASSERT_TRUE(eventually([&] { return relay_->counts("events").breaker.open; }));
  EXPECT_THAT(relay_->counts("events").breaker.reason, HasSubstr("127.0.0.1"));
  std::this_thread::sleep_for(2s);
  const std::uint64_t before = relay_->counts("events").delivered;
  server().start();
  const Steady start = std::chrono::steady_clock::now();
  ASSERT_TRUE(eventually([&] { return relay_->counts("events").delivered > before; }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s) << "5 s, and as many for a busy machine";
  ASSERT_TRUE(all_delivered());
  EXPECT_EQ(0U, relay_->counts("events").dead);
  expect_all_in_order();
}

TEST_F(RabbitmqRelayTest, Row41_ConnectionsThatBreakAllTheTimeLoseNothing) {
  use_classic_queue();
  TcpProxy proxy(server().port());
  start(options(proxy.port()), {.retry = {.attempts = 100, .first_delay = 10ms, .max_delay = 50ms}});
  for (int i = 0; i < 20; ++i) {
    enqueue(200);
    std::this_thread::sleep_for(20ms);
    proxy.reset();
  }
  ASSERT_TRUE(all_delivered());
  EXPECT_TRUE(eventually([&] { return undelivered().empty(); }));
  EXPECT_EQ(0U, relay_->counts("events").dead);
  expect_all_in_order();
}

// At most once: what may have arrived waits for a person.
TEST_F(RabbitmqRelayTest, Row41_WhatMayHaveArrivedIsHeldIfItIsToBe) {
  TcpProxy proxy(server().port());
  start(options(proxy.port()), {.on_unknown = OnUnknown::hold});
  enqueue(1);
  ASSERT_TRUE(all_delivered());
  proxy.cut_after(0, Direction::to_client);
  enqueue(1);
  ASSERT_TRUE(eventually([&] { return !undelivered().empty() && undelivered()[0].row.standing == Standing::held; }));
  EXPECT_THAT(undelivered()[0].row.error, HasSubstr("sent, but not confirmed"));
  proxy.pass();
  enqueue(1);
  ASSERT_TRUE(eventually([&] { return relay_->counts("events").delivered == 2; }));
  end();
  EXPECT_THAT(bodies(), ElementsAre("1", "2", "3"));
}

TEST_F(RabbitmqRelayTest, Row54_WhileTheBrokerIsShortOfMemoryTheRelayWaitsAndSaysWhy) {
  start(options(), {.retry = {.attempts = 1}});
  enqueue(10);
  ASSERT_TRUE(all_delivered());
  server().control({"set_vm_memory_high_watermark", "0.00001"});
  // The first is taken, or waits at the broker; those of the next keys are kept back.
  EXPECT_TRUE(eventually([&] {
    enqueue(1);
    std::this_thread::sleep_for(50ms);
    return relay_->counts("events").breaker.reason.find("blocked by the broker") != std::string::npos;
  }));
  enqueue(500);
  std::this_thread::sleep_for(2s);
  server().control({"set_vm_memory_high_watermark", "0.4"});
  ASSERT_TRUE(all_delivered());
  EXPECT_TRUE(eventually([&] { return undelivered().empty(); }));
  EXPECT_EQ(0U, relay_->counts("events").dead);
  expect_all_in_order();
}

TEST_F(RabbitmqRelayTest, Row51_AnUnroutableEventIsTriedAgainThenDeadAndHoldsNobodyElse) {
  client_.unbind(queue_, exchange_, "#");
  start(options(), {.retry = {.attempts = 3, .first_delay = 10ms, .max_delay = 20ms}});
  enqueue(1);
  ASSERT_TRUE(eventually([&] { return !undelivered().empty() && undelivered()[0].row.standing == Standing::dead; }));
  EXPECT_EQ(3, undelivered().at(0).row.attempts);
  EXPECT_THAT(undelivered()[0].row.error, HasSubstr("unroutable"));
  client_.bind(queue_, exchange_, "#");
  enqueue(1);
  EXPECT_TRUE(eventually([&] { return relay_->counts("events").delivered == 1; }));
}

TEST_F(RabbitmqRelayTest, Row53_WhatAFullQueueRefusesComesLaterInOrder) {
  client_.delete_queue(queue_);
  client_.declare_queue(queue_,
                        {{"x-queue-type", "classic"}, {"x-max-length", "30"}, {"x-overflow", "reject-publish"}});
  client_.bind(queue_, exchange_, "#");
  start(options(), {.retry = {.attempts = 0, .first_delay = 10ms, .max_delay = 50ms}});
  enqueue(100);
  std::vector<int> read;
  ASSERT_TRUE(eventually([&] {
    for (const auto& message : client_.drain(queue_)) read.push_back(std::stoi(message.body));
    return read.size() >= 100;
  }));
  EXPECT_EQ(100U, read.size());
  std::map<int, int> newest;
  for (const int number : read) EXPECT_LT(std::exchange(newest[number % keys], number), number);
  EXPECT_GT(relay_->counts("events").failed_with[Kind::retry], 0U);
}

}  // namespace
}  // namespace waybill
