#include "sink/rabbitmq/settings.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_test.h"

namespace waybill {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class RabbitmqSettings : public config::ConfigFiles {
 protected:
  std::string read(const std::string& toml) {
    write("[destinations.events]\n" + toml, 0600);
    config::Config config = load();
    config::Section root = config.root();
    for (auto& section : root.named("destinations")) setup_ = read_rabbitmq(section);
    const std::string said = problems(config);
    warnings_ = config.warnings();
    const std::string prefix = "destinations.events.";
    keys_.clear();
    for (const auto& setting : config.settings()) keys_.push_back(setting.key.substr(prefix.size()));
    return said;
  }

  SinkSetup setup_;
  std::vector<std::string> warnings_;
  std::vector<std::string> keys_;  // that were asked for
};

const std::string good = "url = \"amqp://localhost\"\nexchange = \"clinic\"\n";

TEST_F(RabbitmqSettings, NeedABrokerAndAnExchange) {
  EXPECT_EQ("none", read(good));
  EXPECT_THAT(read(""), AllOf(HasSubstr("url: is missing"), HasSubstr("exchange: is missing")));
  EXPECT_EQ("none", read("url = \"amqp://localhost\"\nexchange = \"\"\n"));
  EXPECT_THAT(read("url = \"localhost:5672\"\nexchange = \"x\"\n"), HasSubstr("url: must begin with \"amqp://\""));
}

TEST_F(RabbitmqSettings, ShowWhatWouldBeSent) {
  ASSERT_EQ("none", read(good + "routing_key = \"{aggregate_type}.{type}\"\nenvelope = \"raw\"\n"));
  EventView event{.topic = "orders", .type = "paid", .aggregate_type = "order", .payload = "{}"};
  EXPECT_EQ("exchange 'clinic', routing key 'order.paid'", setup_.preview(event).address);
  EXPECT_EQ("{}", setup_.preview(event).message.body);
  event.routing_key = "own.key";
  EXPECT_EQ("exchange 'clinic', routing key 'own.key'", setup_.preview(event).address);
  event.routing_key = {};
  event.aggregate_type = {};
  EXPECT_THAT(setup_.preview(event).refusal, HasSubstr("the routing key needs aggregate_type"));
}

TEST_F(RabbitmqSettings, WhatIsTooLargeForTheBrokerIsRefused) {
  ASSERT_EQ("none", read(good + "envelope = \"raw\"\nmax_message_size = \"1KiB\"\n"));
  EXPECT_THAT(warnings_, testing::ElementsAre(HasSubstr("max_message_size")));
  const std::string payload(1025, '1');
  EXPECT_THAT(setup_.preview({.topic = "a", .payload = payload}).refusal,
              HasSubstr("1025 bytes; the broker takes 1024"));
  EXPECT_EQ("", setup_.preview({.topic = "a", .payload = std::string_view(payload).substr(1)}).refusal);
}

TEST_F(RabbitmqSettings, HaveLimits) {
  EXPECT_THAT(read(good + "in_flight_max = 0\n"), HasSubstr("in_flight_max"));
  EXPECT_THAT(read(good + "in_flight_max = 10001\n"), HasSubstr("in_flight_max"));
  EXPECT_THAT(read(good + "heartbeat = \"500ms\"\n"), HasSubstr("heartbeat"));
  EXPECT_THAT(read(good + "heartbeat = \"1h\"\n"), HasSubstr("heartbeat"));
  EXPECT_THAT(read(good + "confirm_timeout = \"10ms\"\n"), HasSubstr("confirm_timeout"));
  EXPECT_THAT(read(good + "max_message_size = \"1GiB\"\n"), HasSubstr("max_message_size"));
  EXPECT_THAT(read(good + "routing_key = \"" + std::string(256, 'x') + "\"\n"), HasSubstr("at most 255"));
  EXPECT_THAT(read(good + "colour = \"red\"\n"), HasSubstr("colour"));
}

TEST_F(RabbitmqSettings, TlsGoesWithTls) {
  const std::string tls = "url = \"amqps://relay@localhost\"\nexchange = \"x\"\n";
  EXPECT_EQ("none",
            read(tls + "tls_ca = \"ca.pem\"\ntls_certificate = \"c.pem\"\ntls_key = \"k.pem\"\nsasl = \"external\"\n"));
  EXPECT_THAT(read(good + "tls_ca = \"ca.pem\"\n"), HasSubstr("tls_ca: is for TLS"));
  EXPECT_THAT(read(tls + "tls_certificate = \"c.pem\"\n"), HasSubstr("tls_key: is missing"));
  EXPECT_THAT(read(tls + "sasl = \"external\"\n"), HasSubstr("sasl: external logs in by a certificate"));
  EXPECT_THAT(read("url = \"amqp://u:p@h\"\nexchange = \"x\"\npassword = \"q\"\n"),
              HasSubstr("password: stands in the URL"));
}

TEST_F(RabbitmqSettings, DeclareWhatCanBeDeclared) {
  EXPECT_EQ("none", read(good + "declare = {}\n"));
  EXPECT_EQ("none", read(good + "declare = { queue = \"q\", binding = [\"a.#\", \"b\"] }\n"));
  EXPECT_THAT(read(good + "declare = { binding = \"a\" }\n"), HasSubstr("binding: binds a queue"));
  EXPECT_THAT(read(good + "declare = { exchange_type = \"tropic\" }\n"), HasSubstr("exchange_type"));
  EXPECT_THAT(read("url = \"amqp://h\"\nexchange = \"{type}\"\ndeclare = {}\n"),
              HasSubstr("declare: needs an exchange"));
  EXPECT_THAT(read("url = \"amqp://h\"\nexchange = \"\"\ndeclare = { queue = \"q\", binding = \"a\" }\n"),
              HasSubstr("binding: is not possible"));
}

std::string contents(const std::string& path) {
  std::ifstream file(std::string(WAYBILL_SOURCE_DIR) + path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

TEST_F(RabbitmqSettings, AreAllOnTheirPage) {
  ASSERT_EQ("none", read(good + "envelope = \"masstransit\"\nmessage_type = \"urn:message:A:B\"\n"));
  const std::string page = contents("/docs/rabbitmq.md");
  EXPECT_GT(keys_.size(), 20U);
  for (const std::string& key : keys_) EXPECT_THAT(page, HasSubstr("`" + key + "`")) << "docs/rabbitmq.md";
}

TEST_F(RabbitmqSettings, OfTheExampleAreGood) {
  const std::string example = contents("/examples/rabbitmq.toml");
  std::string keys;
  std::istringstream lines(example.substr(example.find("type = \"rabbitmq\"")));
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("type") && !line.starts_with("match") && !line.starts_with("password_file"))
      keys += line + "\n";
  EXPECT_EQ("none", read(keys));
}

TEST_F(RabbitmqSettings, WhatWouldLoseEventsIsAProblem) {
  // Nobody listens there; what is known beforehand is said all the same.
  ASSERT_EQ("none", read("url = \"amqp://127.0.0.1:1\"\nexchange = \"x\"\ndeclare = { queue = \"q\", durable = false, "
                         "queue_type = \"classic\" }\n"));
  const auto findings = setup_.examine(system_clock().steady() + std::chrono::seconds(5));
  ASSERT_EQ(3U, findings.size());
  EXPECT_EQ(Finding::Level::problem, findings[0].level);
  EXPECT_EQ("declare.durable", findings[0].what);
  EXPECT_EQ(Finding::Level::note, findings[1].level);
  EXPECT_THAT(findings[1].remedy, HasSubstr("quorum"));
  EXPECT_EQ(Finding::Level::warning, findings[2].level);
  EXPECT_THAT(findings[2].text, HasSubstr("cannot connect to 127.0.0.1:1: Connection refused"));
}

}  // namespace
}  // namespace waybill
