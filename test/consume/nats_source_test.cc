// What only a source of NATS has.

#include "waybill/nats_source.h"

#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brokers/nats_fixture.h"
#include "support/certificates.h"
#include "support/raw_http_client.h"
#include "support/tmp_nats.h"

namespace waybill {
namespace {

using testing::HasSubstr;

class NatsSourceTest : public NatsTest {
 protected:
  static NatsSourceOptions from(const TmpNats& server) {
    return {.servers = {fmt::format("nats://127.0.0.1:{}", server.port())},
            .stream = "ORDERS",
            .durable = "stock",
            .connect_timeout = 30s};
  }
  static std::string refusal(const NatsSourceOptions& options) {
    try {
      nats_source(options, {})->receive(system_clock().steady() + 30s);
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::fix_config, error.remedy());
      return error.what();
    }
    return "it was let in";
  }
  // What has come within the time that the deadline gives.
  static std::vector<Incoming> receive(MessageSource& source, std::size_t count) {
    std::vector<Incoming> all;
    const Steady end = system_clock().steady() + 30s;
    while (all.size() < count && system_clock().steady() < end)
      for (Incoming& one : source.receive(end).messages) all.push_back(std::move(one));
    return all;
  }
};

TEST_F(NatsSourceTest, OverTlsWithAPassword) {
  const Certificates certificates;
  const TmpNats server({.extra_config = "authorization { user: stock, password: secret }", .tls = &certificates});
  NatsOptions publishing = options(server.port());
  publishing.tls = {.on = true, .ca = certificates.ca()};
  publishing.login = {.user = "stock", .password = "secret"};
  publishing.stream = {.name = "ORDERS", .create = true, .subjects = {"orders.>"}};
  const auto sink = nats_sink(publishing, {});
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));

  NatsSourceOptions reading = from(server);
  EXPECT_THAT(refusal(reading), HasSubstr("only over TLS"));
  reading.tls = true;
  reading.tls_ca = certificates.ca();
  reading.user = "stock";
  reading.password = "wrong";
  EXPECT_THAT(refusal(reading), HasSubstr("Authorization Violation"));
  reading.password = "secret";
  const auto source = nats_source(reading, {});
  EXPECT_EQ("1", receive(*source, 1).at(0).body);
}

TEST_F(NatsSourceTest, AConsumerThatIsAnotherIsRefused) {
  const TmpNats server;
  NatsReader there(server);
  EXPECT_THAT(refusal(from(server)), HasSubstr("there is no such stream"));
  there.add(there.config("ORDERS", "orders.>"));
  NatsSourceOptions reading = from(server);
  reading.create = false;
  EXPECT_THAT(refusal(reading), HasSubstr("create = true"));
  reading.create = true;
  reading.prefetch = 10;
  const auto made = nats_source(reading, {});
  made->receive(system_clock().steady() + 100ms);
  reading.prefetch = 1;
  while (made->is_away()) made->receive(system_clock().steady() + 10ms);
  EXPECT_THAT(refusal(reading), HasSubstr("max_ack_pending"));
  reading.prefetch = 10;
  reading.subjects = {"orders.paid"};
  EXPECT_THAT(refusal(reading), HasSubstr("it reads all subjects, not orders.paid"));
}

// What is terminated in a work queue is gone.
TEST_F(NatsSourceTest, WhatIsRejectedIsKeptOnlyByAStreamWithLimits) {
  const TmpNats server;
  NatsReader there(server);
  jsStreamConfig config = there.config("ORDERS", "orders.>");
  config.Retention = js_WorkQueuePolicy;
  there.add(config);
  const auto sink = nats_sink(options(server.port()), {});
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  const auto source = nats_source(from(server), {});
  EXPECT_EQ(1U, receive(*source, 1).size());
  EXPECT_FALSE(source->keeps_rejected());
  source->close(system_clock().steady() + 10s);

  NatsSourceOptions reading = from(server);
  reading.reject = true;
  const auto rejecting = nats_source(reading, {});
  const auto again = receive(*rejecting, 1);
  ASSERT_EQ(1U, again.size()) << "it was given back";
  EXPECT_EQ(2, again[0].deliveries);
  EXPECT_TRUE(rejecting->keeps_rejected());
  rejecting->reject(again[0].ticket, "no");
  rejecting->close(system_clock().steady() + 10s);
  const Steady end = system_clock().steady() + 30s;
  while (there.count("ORDERS") > 0 && system_clock().steady() < end) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(0U, there.count("ORDERS"));
}

// Whoever publishes may give a message what only a server has: it is a message all the same.
TEST_F(NatsSourceTest, AStatusInTheStreamIsAMessage) {
  const TmpNats server;
  NatsReader there(server);
  there.add(there.config("ORDERS", "orders.>"));
  http::RawClient publisher(server.port());
  publisher.send("CONNECT {\"headers\":true,\"verbose\":false}\r\n");
  for (const std::string head : {"NATS/1.0 100 Idle\r\n\r\n", "NATS/1.0 503\r\n\r\n", "NATS/1.0 409 Gone\r\n\r\n"})
    publisher.send(fmt::format("HPUB orders.1 {} {}\r\n{}x\r\n", head.size(), head.size() + 1, head));
  const Steady end = system_clock().steady() + 30s;
  while (there.count("ORDERS") < 3 && system_clock().steady() < end) std::this_thread::sleep_for(10ms);
  NatsSourceOptions reading = from(server);
  reading.prefetch = 10;
  const auto source = nats_source(reading, {});
  EXPECT_EQ(3U, receive(*source, 3).size());
}

// The next one comes when the one before is acknowledged, whoever asks.
TEST_F(NatsSourceTest, OneIsHandedOutAtATimeToAllTogether) {
  const TmpNats server;
  NatsReader there(server);
  there.add(there.config("ORDERS", "orders.>"));
  const auto sink = nats_sink(options(server.port()), {});
  deliver_many(*sink, 2);
  const auto first = nats_source(from(server), {});
  const auto second = nats_source(from(server), {});
  const auto one = receive(*first, 1);
  ASSERT_EQ(1U, one.size());
  EXPECT_TRUE(second->receive(system_clock().steady() + 500ms).messages.empty());
  first->accept(one[0].ticket);
  first->close(system_clock().steady() + 10s);
  EXPECT_EQ("1", receive(*second, 1).at(0).body);
}

}  // namespace
}  // namespace waybill
