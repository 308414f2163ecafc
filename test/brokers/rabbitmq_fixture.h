#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/error.h"

#include "brokers/rabbitmq_client.h"
#include "sink/rabbitmq/options.h"
#include "support/certificates.h"
#include "support/tcp_proxy.h"
#include "support/tmp_rabbitmq.h"

namespace waybill {

using namespace std::chrono_literals;
using Kind = Outcome::Kind;

// One for the whole binary.
inline const Certificates& shared_certificates() {
  static const Certificates made;
  return made;
}
inline TmpRabbitmq& shared_rabbitmq() {
  static TmpRabbitmq made({.tls = &shared_certificates()});
  return made;
}

// A real broker, with an exchange and a queue of each test's own, and sinks for it.
class RabbitmqTest : public testing::Test {
 protected:
  static const Certificates& certificates() { return shared_certificates(); }
  static TmpRabbitmq& server() { return shared_rabbitmq(); }

  RabbitmqTest() {
    client_.declare_exchange(exchange_);
    client_.declare_queue(queue_);
    client_.bind(queue_, exchange_, "#");
  }

  RabbitmqOptions options(std::uint16_t port) const {
    RabbitmqOptions options;
    options.name = "events";
    options.hosts = {{"127.0.0.1", port}};
    options.password = "guest";
    to_exchange(options, exchange_);
    options.routing_key.emplace("{topic}", addresses::routing_key);
    options.encode = encoder({.envelope = Envelope::raw}, bindings::amqp);
    options.connect_timeout = 10s;
    return options;
  }
  RabbitmqOptions options() const { return options(server().port()); }
  static void to_exchange(RabbitmqOptions& options, const std::string& name) {
    options.exchange.emplace(name, addresses::exchange);
    options.fixed_exchange = name;
  }

  // From now on the queue is a classic one, from which many messages are read sooner.
  void use_classic_queue(RabbitmqClient::Arguments arguments = {}) {
    client_.delete_queue(queue_);
    arguments["x-queue-type"] = "classic";
    client_.declare_queue(queue_, arguments);
    client_.bind(queue_, exchange_, "#");
  }

  // An event that lives as long as the test.
  const EventView& event(const std::string& payload, const std::string& topic = "orders.placed") {
    texts_.push_back(payload);
    const std::string_view kept = texts_.back();
    texts_.push_back(topic);
    events_.push_back({.id = EventId::make(),
                       .tenant = "default",
                       .topic = texts_.back(),
                       .type = texts_.back(),
                       .payload = kept,
                       .content_type = "application/json",
                       .metadata = "{}",
                       .headers = "{}"});
    return events_.back();
  }

  static constexpr auto patience = 60s;

  // The outcomes of so many events, by ticket.
  static std::map<std::uint64_t, Outcome> collect(Sink& sink, std::size_t count) {
    std::map<std::uint64_t, Outcome> found;
    std::vector<Outcome> outcomes;
    const Steady deadline = std::chrono::steady_clock::now() + patience;
    while (found.size() < count && std::chrono::steady_clock::now() < deadline) {
      outcomes.clear();
      sink.collect(outcomes, deadline);
      for (const Outcome& outcome : outcomes)
        EXPECT_TRUE(found.emplace(outcome.ticket, outcome).second) << outcome.ticket << " was answered twice";
    }
    EXPECT_EQ(count, found.size());
    return found;
  }
  static Outcome deliver(Sink& sink, const EventView& event) {
    static std::uint64_t ticket = 1'000'000;
    sink.submit(event, ++ticket);
    return collect(sink, 1)[ticket];
  }
  static Outcome probe(Sink& sink) { return sink.probe(std::chrono::steady_clock::now() + patience); }
  // As the relay does: until it is there again.
  static Outcome probe_until_good(Sink& sink) {
    Outcome last;
    for (const Steady end = std::chrono::steady_clock::now() + patience; std::chrono::steady_clock::now() < end;) {
      last = probe(sink);
      if (last.kind == Kind::delivered) break;
      std::this_thread::sleep_for(50ms);
    }
    return last;
  }

  std::vector<std::string> bodies() {
    std::vector<std::string> all;
    for (const auto& message : client_.drain(queue_)) all.push_back(message.body);
    return all;
  }

  // Named after the test.
  const std::string name_ = testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string exchange_ = "exchange " + name_;
  const std::string queue_ = "queue " + name_;
  RabbitmqClient client_{server().port()};
  std::deque<std::string> texts_;
  std::deque<EventView> events_;
};

}  // namespace waybill
