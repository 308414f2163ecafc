// What the sink for RabbitMQ makes of a real broker's answers.
#include <atomic>

#include "brokers/rabbitmq_fixture.h"
#include "sink/rabbitmq/examine.h"

namespace waybill {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Eq;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

class RabbitmqSinkTest : public RabbitmqTest {};

TEST_F(RabbitmqSinkTest, WhatIsDeliveredIsInTheQueue) {
  RabbitmqOptions with_envelope = options();
  with_envelope.encode = encoder({.envelope = Envelope::cloudevents, .source = "/test"}, bindings::amqp);
  const auto sink = rabbitmq_sink(with_envelope, {});
  const EventView& sent = event(R"({"a":"ü"})");
  const Outcome outcome = deliver(*sink, sent);
  ASSERT_EQ(Kind::delivered, outcome.kind) << outcome.reason;
  EXPECT_EQ("", outcome.reason);
  const auto message = client_.get(queue_);
  ASSERT_TRUE(message);
  EXPECT_EQ(sent.id.to_string(), message->id);
  EXPECT_EQ(R"({"a":"ü"})", message->body);
  EXPECT_EQ("orders.placed", message->routing_key);
  EXPECT_EQ("orders.placed", message->type);
  EXPECT_EQ("application/json", message->content_type);
  EXPECT_EQ(2, message->delivery_mode);
  EXPECT_EQ("/test", message->headers.at("cloudEvents:source"));
}

TEST_F(RabbitmqSinkTest, AnEventsOwnRoutingKeyWins) {
  const auto sink = rabbitmq_sink(options(), {});
  EventView own = event("1");
  own.routing_key = "own.key";
  EXPECT_EQ(Kind::delivered, deliver(*sink, own).kind);
  EXPECT_EQ("own.key", client_.get(queue_)->routing_key);
}

TEST_F(RabbitmqSinkTest, Row55_AWindowOfMessagesIsConfirmedExactly) {
  use_classic_queue();
  RabbitmqOptions pipelined = options();
  pipelined.in_flight_max = 5'000;
  const auto sink = rabbitmq_sink(pipelined, {});
  std::set<std::string> ids;
  for (std::uint64_t i = 0; i < 5'000; ++i) {
    const EventView& each = event(std::string(i % 700, '1') + "1");
    ids.insert(each.id.to_string());
    sink->submit(each, i);
  }
  for (const auto& [ticket, outcome] : collect(*sink, 5'000))
    ASSERT_EQ(Kind::delivered, outcome.kind) << ticket << ": " << outcome.reason;
  std::size_t count = 0;
  for (const auto& message : client_.drain(queue_)) count += ids.erase(message.id);
  EXPECT_EQ(5'000U, count);
}

TEST_F(RabbitmqSinkTest, ABodyOfManyFramesArrivesWhole) {
  const auto sink = rabbitmq_sink(options(), {});
  const std::string large = '"' + std::string(700'000, 'x') + '"';
  EXPECT_EQ(Kind::delivered, deliver(*sink, event(large)).kind);
  EXPECT_EQ(large, client_.get(queue_)->body);
}

TEST_F(RabbitmqSinkTest, DeclaresWhatItIsToldTo) {
  RabbitmqOptions declaring = options();
  to_exchange(declaring, exchange_ + " new");
  declaring.declare = {.on = true, .queue = queue_ + " new", .bindings = {"orders.*"}};
  const auto sink = rabbitmq_sink(declaring, {});
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
  EXPECT_EQ("1", client_.get(queue_ + " new")->body);
  EXPECT_THAT(deliver(*sink, event("1", "patients")).reason, HasSubstr("unroutable"));
  // As it is, it cannot be declared otherwise.
  declaring.declare.queue_type = "classic";
  const auto other = rabbitmq_sink(declaring, {});
  EXPECT_THAT(deliver(*other, event("1")).reason,
              AllOf(HasSubstr("cannot be declared"), HasSubstr("x-queue-type"), HasSubstr("(406)")));
}

// Those that fit a queue and those that do not are told apart one by one.
TEST_F(RabbitmqSinkTest, Row51_WhatFitsNoQueueIsUnroutableAndNotDelivered) {
  client_.unbind(queue_, exchange_, "#");
  client_.bind(queue_, exchange_, "good");
  const auto sink = rabbitmq_sink(options(), {});
  for (std::uint64_t i = 0; i < 300; ++i) sink->submit(event("1", i % 3 == 0 ? "bad" : "good"), i);
  for (const auto& [ticket, outcome] : collect(*sink, 300)) {
    ASSERT_EQ(ticket % 3 == 0 ? Kind::retry : Kind::delivered, outcome.kind) << ticket << ": " << outcome.reason;
    if (outcome.kind == Kind::delivered) continue;
    EXPECT_THAT(outcome.reason, AllOf(HasSubstr("unroutable"), HasSubstr(exchange_), HasSubstr("bind one")));
  }
  EXPECT_EQ(200U, client_.drain(queue_).size());
  client_.bind(queue_, exchange_, "bad");
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("2", "bad")).kind);
  client_.delete_queue(queue_);
  EXPECT_THAT(deliver(*sink, event("3", "bad")).reason, HasSubstr("unroutable"));
}

TEST_F(RabbitmqSinkTest, Row52_AnExchangeThatIsNotThereIsNoEventsFault) {
  client_.delete_exchange(exchange_);
  const auto sink = rabbitmq_sink(options(), {});
  const Outcome missing = deliver(*sink, event("1"));
  EXPECT_EQ(Kind::unavailable, missing.kind);
  EXPECT_THAT(missing.reason, AllOf(HasSubstr(exchange_), HasSubstr("NOT_FOUND"), HasSubstr("declare = {}")));
  EXPECT_EQ(Kind::unavailable, probe(*sink).kind);
  client_.declare_exchange(exchange_);
  client_.bind(queue_, exchange_, "#");
  EXPECT_EQ(Kind::delivered, probe(*sink).kind);
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("2")).kind);
}

TEST_F(RabbitmqSinkTest, Row52_AnExchangeThatIsDeletedEndsTheChannelAndNothingIsLost) {
  const auto sink = rabbitmq_sink(options(), {});
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
  client_.delete_exchange(exchange_);
  for (std::uint64_t i = 0; i < 20; ++i) sink->submit(event("2"), i);
  for (const auto& [ticket, outcome] : collect(*sink, 20)) {
    EXPECT_THAT(outcome.kind, AnyOf(Eq(Kind::unknown), Eq(Kind::unavailable))) << ticket;
    EXPECT_THAT(outcome.reason, HasSubstr("NOT_FOUND"));
  }
  // From the next on it is the destination's fault.
  EXPECT_EQ(Kind::unavailable, deliver(*sink, event("3")).kind);
  client_.declare_exchange(exchange_);
  client_.bind(queue_, exchange_, "#");
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("4")).kind);
  EXPECT_THAT(bodies(), UnorderedElementsAre("1", "4"));
}

TEST_F(RabbitmqSinkTest, AnExchangeOfOnesOwnThatIsMissingConcernsOnlyWhoNeedsIt) {
  RabbitmqOptions by_type = options();
  by_type.exchange.emplace("{type}", addresses::exchange);
  by_type.exchange_is_fixed = false;
  by_type.fixed_exchange.clear();
  const auto sink = rabbitmq_sink(by_type, {});
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1", exchange_)).kind);
  const Outcome outcome = deliver(*sink, event("2", "no such exchange"));
  EXPECT_EQ(Kind::retry, outcome.kind);
  EXPECT_THAT(outcome.reason, HasSubstr("no exchange 'no such exchange'"));
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("3", exchange_)).kind);
}

TEST_F(RabbitmqSinkTest, Row53_WhatAFullQueueRefusesIsTriedAgain) {
  use_classic_queue({{"x-max-length", "2"}, {"x-overflow", "reject-publish"}});
  const auto sink = rabbitmq_sink(options(), {});
  std::size_t delivered = 0;
  for (int i = 0; i < 6; ++i) {
    const Outcome outcome = deliver(*sink, event("1"));
    delivered += outcome.kind == Kind::delivered ? 1 : 0;
    if (outcome.kind == Kind::delivered) continue;
    EXPECT_EQ(Kind::retry, outcome.kind);
    EXPECT_THAT(outcome.reason, AllOf(HasSubstr("nack"), HasSubstr("reject-publish")));
  }
  EXPECT_LT(delivered, 6U);
  EXPECT_EQ(delivered, client_.drain(queue_).size());
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("2")).kind);
}

TEST_F(RabbitmqSinkTest, Row50_WhatIsKnownToBeTooLargeIsRejected) {
  RabbitmqOptions small = options();
  small.message_bytes_max = 1'000;
  const auto sink = rabbitmq_sink(small, {});
  const Outcome outcome = deliver(*sink, event(std::string(1'001, '1')));
  EXPECT_EQ(Kind::rejected, outcome.kind);
  EXPECT_THAT(outcome.reason, AllOf(HasSubstr("1001 bytes"), HasSubstr("1000 at most")));
  EXPECT_EQ(Kind::delivered, deliver(*sink, event(std::string(1'000, '1'))).kind);
}

// What the broker says of its own limit is remembered: the connection is lost once, and not for every such event.
TEST_F(RabbitmqSinkTest, Row50_TheBrokersOwnLimitIsLearnt) {
  server().control({"eval", "application:set_env(rabbit, max_message_size, 2000)."});
  TcpProxy proxy(server().port());
  const auto sink = rabbitmq_sink(options(proxy.port()), {});
  const Outcome first = deliver(*sink, event(std::string(5'000, '1')));
  EXPECT_EQ(Kind::rejected, first.kind) << first.reason;
  EXPECT_THAT(first.reason, AllOf(HasSubstr("5000 bytes"), HasSubstr("2000 at most")));
  EXPECT_EQ(Kind::delivered, deliver(*sink, event(std::string(2'000, '1'))).kind);
  const std::size_t connections = proxy.accepted();
  EXPECT_EQ(Kind::rejected, deliver(*sink, event(std::string(2'001, '1'))).kind);
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
  EXPECT_EQ(connections, proxy.accepted());
  server().control({"eval", "application:set_env(rabbit, max_message_size, 134217728)."});
}

TEST_F(RabbitmqSinkTest, Row46_WhoIsNotLetInBlamesNoEvent) {
  RabbitmqOptions wrong = options();
  wrong.password = "S3cret-guess";
  const auto sink = rabbitmq_sink(wrong, {});
  const Outcome outcome = deliver(*sink, event("1"));
  EXPECT_EQ(Kind::unavailable, outcome.kind);
  EXPECT_THAT(outcome.reason, AllOf(HasSubstr("refuses to log in user 'guest'"), HasSubstr("ACCESS_REFUSED"),
                                    Not(HasSubstr("S3cret"))));
  RabbitmqOptions elsewhere = options();
  elsewhere.vhost = "nowhere";
  const auto lost = rabbitmq_sink(elsewhere, {});
  EXPECT_THAT(deliver(*lost, event("1")).reason, HasSubstr("refuses vhost 'nowhere'"));
}

TEST_F(RabbitmqSinkTest, Row46_APermissionThatIsTakenAwayBlamesNoEvent) {
  server().control({"add_user", "relay", "relay"});
  server().control({"set_permissions", "relay", ".*", ".*", ".*"});
  RabbitmqOptions as_relay = options();
  as_relay.user = as_relay.password = "relay";
  {
    const auto sink = rabbitmq_sink(as_relay, {});
    EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
  }
  server().control({"set_permissions", "relay", ".*", "^$", ".*"});
  const auto sink = rabbitmq_sink(as_relay, {});
  for (std::uint64_t i = 0; i < 20; ++i) sink->submit(event("2"), i);
  for (const auto& [ticket, outcome] : collect(*sink, 20)) {
    EXPECT_EQ(Kind::unavailable, outcome.kind) << ticket;
    EXPECT_THAT(outcome.reason, AllOf(HasSubstr("ACCESS_REFUSED"), HasSubstr("'relay'")));
  }
  server().control({"set_permissions", "relay", ".*", ".*", ".*"});
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("3")).kind);
  EXPECT_THAT(bodies(), UnorderedElementsAre("1", "3"));
}

TEST_F(RabbitmqSinkTest, TheNextHostIsTriedWhenOneIsAway) {
  RabbitmqOptions several = options();
  several.hosts.insert(several.hosts.begin(), {"127.0.0.1", 1});
  several.hosts.insert(several.hosts.begin(), {"no-such-host.invalid", 5672});
  const auto sink = rabbitmq_sink(several, {});
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
  several.hosts.pop_back();
  const auto nowhere = rabbitmq_sink(several, {});
  EXPECT_THAT(deliver(*nowhere, event("1")).reason,
              AllOf(HasSubstr("no-such-host.invalid:5672: the name cannot be looked up"),
                    HasSubstr("127.0.0.1:1: Connection refused")));
}

TEST_F(RabbitmqSinkTest, AfterCloseNothingOfBeforeIsAnsweredAndItIsAsNew) {
  const auto sink = rabbitmq_sink(options(), {});
  for (std::uint64_t i = 0; i < 500; ++i) sink->submit(event("1"), i);
  sink->close(std::chrono::steady_clock::now() + 10s);
  std::vector<Outcome> outcomes;
  sink->collect(outcomes, std::chrono::steady_clock::now() + 200ms);
  EXPECT_TRUE(outcomes.empty());
  client_.purge_queue(queue_);
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("2")).kind);
  EXPECT_THAT(bodies(), UnorderedElementsAre("2"));
}

TEST_F(RabbitmqSinkTest, IsExaminedWithoutSendingAnything) {
  const auto soon = [] { return std::chrono::steady_clock::now() + 30s; };
  const auto good = rabbitmq::examine(options(), soon());
  ASSERT_FALSE(good.empty());
  EXPECT_EQ(Finding::Level::ok, good[0].level);
  EXPECT_THAT(good[0].text, HasSubstr("exchange '" + exchange_ + "' is there"));
  RabbitmqOptions missing = options();
  to_exchange(missing, "no such exchange");
  EXPECT_EQ(Finding::Level::problem, rabbitmq::examine(missing, soon()).at(0).level);
  RabbitmqOptions wrong = options();
  wrong.password = "wrong";
  EXPECT_EQ(Finding::Level::problem, rabbitmq::examine(wrong, soon()).at(0).level);
  EXPECT_EQ(Finding::Level::warning, rabbitmq::examine(options(1), soon()).at(0).level);
}

}  // namespace
}  // namespace waybill
