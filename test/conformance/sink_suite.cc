#include "conformance/sink_suite.h"

#include <algorithm>
#include <utility>

#include "conformance/sink_traffic.h"

namespace waybill {
namespace {

using Kind = Outcome::Kind;

void every_event_is_delivered_and_answered_once(SinkUnderTest& world) {
  Traffic traffic(world);
  traffic.submit_many(300);
  traffic.collect_all();
  EXPECT_EQ(300U, traffic.count(Kind::delivered));
  traffic.expect_arrivals(false);
}

// Read at once: what is said to be delivered may not be still on its way.
void what_is_delivered_has_arrived(SinkUnderTest& world) {
  Traffic traffic(world);
  for (int i = 0; i < 10; ++i) {
    traffic.submit_many(1);
    traffic.collect_all();
    traffic.expect_arrivals(false);
  }
  EXPECT_EQ(10U, traffic.count(Kind::delivered));
}

void collect_returns_as_soon_as_there_is_an_outcome(SinkUnderTest& world) {
  Traffic traffic(world);
  for (std::size_t i = 1; i <= 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    traffic.submit_many(1);
    traffic.collect(world.patience());
    EXPECT_EQ(i, traffic.answered());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, world.patience() / 2);
  }
}

void collect_may_be_called_with_a_deadline_that_is_over(SinkUnderTest& world) {
  Traffic traffic(world);
  traffic.submit_many(20);
  const auto deadline = std::chrono::steady_clock::now() + world.patience();
  while (traffic.under_way() > 0 && std::chrono::steady_clock::now() < deadline) traffic.collect(-1ms);
  EXPECT_EQ(20U, traffic.count(Kind::delivered));
  traffic.expect_arrivals(false);
}

std::size_t as_many_as_it_takes(const Traffic& traffic) {
  return std::min<std::size_t>(traffic.room(), 3'000);
}

void takes_as_many_as_it_says(SinkUnderTest& world) {
  Traffic traffic(world);
  const std::size_t many = as_many_as_it_takes(traffic);
  EXPECT_GE(many, 1U);
  traffic.submit_many(many);
  EXPECT_EQ(many, traffic.under_way());
  traffic.collect_all();
  EXPECT_EQ(many, traffic.count(Kind::delivered));
  traffic.expect_arrivals(false);
}

void unusual_events_arrive_byte_for_byte(SinkUnderTest& world) {
  const auto refused = world.refused();
  Traffic traffic(world);
  std::size_t delivered = 0;
  for (const SampleEvent& event : unusual_events()) {
    SCOPED_TRACE(event.name);
    const bool good = !refused.contains(event.name);
    traffic.submit_many(1);
    traffic.submit(event);
    traffic.submit_many(1);
    traffic.collect_all();
    EXPECT_EQ(good ? Kind::delivered : Kind::rejected, traffic.last(event.id));
    delivered += good ? 3 : 2;
    EXPECT_EQ(delivered, traffic.count(Kind::delivered)) << "its neighbours must arrive, whatever becomes of it";
  }
  traffic.expect_arrivals(false);
}

void close_forgets_and_begins_anew(SinkUnderTest& world) {
  Traffic traffic(world);
  traffic.close(1s);  // Nothing has happened yet.
  traffic.submit_many(50);
  traffic.close(5s);
  traffic.collect(50ms);  // Nothing of before may be answered,
  EXPECT_EQ(0U, traffic.answered());
  traffic.submit_many(50);  // nor be taken for an answer to these, which have the same tickets.
  traffic.collect_all();
  EXPECT_EQ(50U, traffic.count(Kind::delivered));
  traffic.expect_arrivals(false);
  traffic.close(5s);
  traffic.close(5s);
  traffic.deliver_the_rest();
  EXPECT_EQ(100U, traffic.count(Kind::delivered));
  traffic.expect_arrivals(true);
}

void a_slow_destination_gets_everything(SinkUnderTest& world) {
  Traffic traffic(world);
  world.become(Condition::slow);
  traffic.submit_many(50, 10'000);
  traffic.collect_all();
  EXPECT_EQ(50U, traffic.count(Kind::delivered));
  world.become(Condition::there);
  traffic.expect_arrivals(false);
}

// Nothing was ever written to anybody, so `unavailable` is the only thing to say.
void away_from_the_start_is_unavailable(SinkUnderTest& world) {
  world.become(Condition::away);
  Traffic traffic(world);
  traffic.submit_many(20);
  traffic.collect_all();
  EXPECT_EQ(20U, traffic.count(Kind::unavailable));
  world.become(Condition::there);
  traffic.deliver_the_rest();
  traffic.expect_arrivals(true);
}

// What becomes of an event while the destination cannot confirm it.
void expect_no_fault_of_the_events(const Traffic& traffic, std::size_t delivered_before) {
  EXPECT_EQ(delivered_before, traffic.count(Kind::delivered));
  EXPECT_EQ(0U, traffic.count(Kind::rejected));
  EXPECT_EQ(0U, traffic.count(Kind::retry)) << "an outage is no event's fault";
}

void goes_on_after_an_outage(SinkUnderTest& world) {
  Traffic traffic(world);
  for (std::size_t round = 0; round < 2; ++round) {
    traffic.submit_many(10);
    traffic.collect_all();
    const std::size_t before = 30 * round + 10;
    EXPECT_EQ(before, traffic.count(Kind::delivered));
    world.become(Condition::away);
    traffic.submit_many(20);
    traffic.collect_all();
    expect_no_fault_of_the_events(traffic, before);
    EXPECT_TRUE(!world.probes() || traffic.probe(1s).kind != Kind::delivered);
    world.become(Condition::there);
    traffic.deliver_the_rest();
    EXPECT_EQ(before + 20, traffic.count(Kind::delivered));
  }
  traffic.expect_arrivals(true);
}

void nothing_is_delivered_while_it_hangs(SinkUnderTest& world) {
  Traffic traffic(world);
  traffic.submit_many(10);
  traffic.collect_all();
  EXPECT_EQ(10U, traffic.count(Kind::delivered));
  world.become(Condition::hanging);
  traffic.submit_many(10);
  traffic.collect(50ms);
  traffic.collect_all();
  expect_no_fault_of_the_events(traffic, 10);
  world.become(Condition::there);
  traffic.deliver_the_rest();
  traffic.expect_arrivals(true);
}

void hanging_from_the_start_is_found_out(SinkUnderTest& world) {
  world.become(Condition::hanging);
  Traffic traffic(world);
  traffic.submit_many(10);
  traffic.collect_all();
  expect_no_fault_of_the_events(traffic, 0);
  world.become(Condition::there);
  traffic.deliver_the_rest();
  traffic.expect_arrivals(true);
}

// More than any socket's buffers take.
void takes_as_many_as_it_says_while_it_hangs(SinkUnderTest& world) {
  Traffic traffic(world);
  traffic.submit_many(1);
  traffic.collect_all();
  world.become(Condition::hanging);
  const std::size_t many = as_many_as_it_takes(traffic);
  traffic.submit_many(many, std::size_t{16 << 20} / many);
  traffic.collect(50ms);
  world.become(Condition::there);
  traffic.collect_all();
  EXPECT_EQ(0U, traffic.count(Kind::rejected));
  traffic.deliver_the_rest();
  traffic.expect_arrivals(true);
}

void probe_tells_by_its_deadline_while_it_hangs(SinkUnderTest& world) {
  if (!world.probes()) return;
  Traffic traffic(world);
  EXPECT_EQ(Kind::delivered, traffic.probe(world.patience()).kind);
  traffic.close(5s);
  world.become(Condition::hanging);
  EXPECT_NE(Kind::delivered, traffic.probe(100ms).kind);
  world.become(Condition::there);
  traffic.wait_until_reachable();
  traffic.submit_many(1);
  traffic.collect_all();
  traffic.deliver_the_rest();
  traffic.expect_arrivals(true);
}

void closes_by_its_deadline_while_it_hangs(SinkUnderTest& world) {
  Traffic traffic(world);
  traffic.submit_many(1);
  traffic.collect_all();
  world.become(Condition::hanging);
  traffic.submit_many(20);
  traffic.close(200ms);
  traffic.collect(50ms);
  EXPECT_EQ(1U, traffic.answered());
  world.become(Condition::there);
  traffic.deliver_the_rest();
  EXPECT_EQ(21U, traffic.count(Kind::delivered));
  traffic.expect_arrivals(true);
}

void goes_by_itself_while_it_hangs(SinkUnderTest& world) {
  for (const bool was_connected : {true, false}) {
    Traffic traffic(world);
    if (was_connected) {
      traffic.submit_many(1);
      traffic.collect_all();
    }
    world.become(Condition::hanging);
    traffic.submit_many(20);
    traffic.collect(10ms);
    traffic.destroy();
    world.become(Condition::there);
  }
}

void a_broken_connection_loses_nothing(SinkUnderTest& world) {
  Traffic traffic(world);
  for (int round = 0; round < 5; ++round) {
    traffic.submit_many(100, 1'000);
    if (round % 2 == 0) traffic.collect(1ms);
    world.interrupt();
    traffic.collect_all();
    EXPECT_EQ(0U, traffic.count(Kind::rejected));
    traffic.deliver_the_rest();
  }
  EXPECT_EQ(500U, traffic.count(Kind::delivered));
  traffic.expect_arrivals(true);
}

std::string words(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "orders.";
  text.resize(bytes);
  text.back() = 's';
  return text;
}

SampleEvent unusual(std::string name) {
  SampleEvent event;
  event.name = std::move(name);
  event.payload = R"({"order":1})";
  return event;
}

SampleEvent of_bytes(std::string name, std::string payload) {
  SampleEvent event = unusual(std::move(name));
  event.payload = std::move(payload);
  event.payload_is_json = false;
  event.content_type = "application/octet-stream";
  return event;
}

std::string every_byte() {
  std::string bytes;
  for (int i = 0; i < 1'024; ++i) bytes += static_cast<char>(i);
  return bytes + "\r\nPUB x 3\r\n\xCE";
}

void add_unusual_names(std::vector<SampleEvent>& events) {
  SampleEvent event = unusual("utf8_names");
  event.aggregate_id = "Zürich/東京 🚚 \"7\" 100 % \\";
  event.key = event.aggregate_id;
  events.push_back(event);

  event = unusual("long_names");
  event.topic = event.type = words(limits::name_bytes_max);
  event.aggregate_type = words(limits::name_bytes_max);
  event.aggregate_id = event.key = words(limits::key_bytes_max);
  events.push_back(event);

  event = unusual("long_routing_key");
  event.routing_key = words(limits::name_bytes_max);
  events.push_back(event);

  event = unusual("wildcards");
  event.topic = event.type = "orders.*.>.#";
  event.aggregate_type = "..or ders..";
  events.push_back(event);

  event = unusual("topic_alone");
  event.type = event.topic;
  event.aggregate_type = event.aggregate_id = "";
  events.push_back(event);
}

}  // namespace

std::vector<SampleEvent> unusual_events() {
  std::vector<SampleEvent> events;
  events.push_back(of_bytes("no_bytes", ""));
  events.push_back(of_bytes("one_zero_byte", std::string(1, '\0')));
  events.push_back(of_bytes("every_byte", every_byte()));
  events.push_back(of_bytes("one_mebibyte", std::string(std::size_t{1} << 20, '\xFE')));

  SampleEvent event = unusual("as_large_as_can_be");
  event.payload = '"' + std::string(limits::payload_bytes_max - 2, 'x') + '"';
  events.push_back(event);

  event = unusual("spaced_json");
  event.payload = "{ \"a\" : 1.50, \"a\":\"\\\\ \\u00e9 \xc3\xa9\" ,\t\"b\":[ ] }";
  events.push_back(event);

  event = unusual("headers");
  event.headers = R"({"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","shop":"no 7"})";
  event.metadata = R"({"user":"reception","note":"Jörg \"x\""})";
  events.push_back(event);

  event = of_bytes("text", "plain, with ü");
  event.content_type = "text/plain; charset=utf-8";
  events.push_back(event);

  add_unusual_names(events);
  return events;
}

const std::vector<SinkCheck>& sink_checks() {
  using enum Condition;
  static const std::vector<SinkCheck> checks{
      {"EveryEventIsDeliveredAndAnsweredOnce", there, every_event_is_delivered_and_answered_once},
      {"WhatIsDeliveredHasArrived", there, what_is_delivered_has_arrived},
      {"CollectReturnsAsSoonAsThereIsAnOutcome", there, collect_returns_as_soon_as_there_is_an_outcome},
      {"CollectMayBeCalledWithADeadlineThatIsOver", there, collect_may_be_called_with_a_deadline_that_is_over},
      {"TakesAsManyAsItSays", there, takes_as_many_as_it_says},
      {"UnusualEventsArriveByteForByte", there, unusual_events_arrive_byte_for_byte},
      {"CloseForgetsAndBeginsAnew", there, close_forgets_and_begins_anew},
      {"ABrokenConnectionLosesNothing", there, a_broken_connection_loses_nothing},
      {"ASlowDestinationGetsEverything", slow, a_slow_destination_gets_everything},
      {"AwayFromTheStartIsUnavailable", away, away_from_the_start_is_unavailable},
      {"GoesOnAfterAnOutage", away, goes_on_after_an_outage},
      {"NothingIsDeliveredWhileItHangs", hanging, nothing_is_delivered_while_it_hangs},
      {"HangingFromTheStartIsFoundOut", hanging, hanging_from_the_start_is_found_out},
      {"TakesAsManyAsItSaysWhileItHangs", hanging, takes_as_many_as_it_says_while_it_hangs},
      {"ProbeTellsByItsDeadlineWhileItHangs", hanging, probe_tells_by_its_deadline_while_it_hangs},
      {"ClosesByItsDeadlineWhileItHangs", hanging, closes_by_its_deadline_while_it_hangs},
      {"GoesByItselfWhileItHangs", hanging, goes_by_itself_while_it_hangs},
  };
  return checks;
}

TEST_P(SinkSuite, Check) {
  const auto& [maker, check] = GetParam();
  const auto world = maker.make();
  if (!world->can_be(check.needs)) GTEST_SKIP() << "its destination cannot be like that";
  check.run(*world);
}

}  // namespace waybill
