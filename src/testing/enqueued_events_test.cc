#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/enqueue.h"
#include "waybill/gmock.h"
#include "waybill/relay.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using testing::Not;

Event full() {
  Event event{.topic = "order.placed",
              .type = "placed",
              .aggregate = {"order", "o-7"},
              .version = 3,
              .key = "k",
              .payload = R"({"a": 1})"};
  event.content_type = "application/json";
  event.metadata = R"({"actor":"ann"})";
  event.headers = {{.name = "x", .value = "y"}};
  event.routing_key = "r";
  event.schema_id = "s";
  event.schema_version = 2;
  event.occurred_at = Time(1'771'490'000'123'456us);
  event.not_before = Time(1'771'490'001'000'000us);
  event.expires_at = Time(1'771'490'002'500'000us);
  event.attempts_max = 5;
  event.dedup_key = "d";
  event.tenant = "north";
  event.id = EventId::make();
  return event;
}

TEST(EnqueuedEvents, AreReadAsTheyWereWritten) {
  const auto db = memory_database();
  enqueue(*db, Event{.topic = "earlier", .payload = "{}"});
  const EnqueuedEvents outbox(*db);
  EXPECT_THAT(outbox, Enqueued());
  const Event wanted = full();
  const Event bytes{.topic = "bytes", .payload_bytes = std::string("\0\xff", 2)};
  enqueue(*db, wanted);
  enqueue(*db, bytes);
  EXPECT_EQ("", differences(outbox.events(), {wanted, bytes}));
  EXPECT_THAT(outbox, Enqueued(EventLike(wanted), EventLike(bytes)));
  EXPECT_THAT(outbox, Not(Enqueued(EventLike(wanted))));
}

TEST(EnqueuedEvents, OfATransactionAreGoneWithIt) {
  const auto db = memory_database();
  const EnqueuedEvents outbox(*db);
  {
    Transaction transaction(*db);
    enqueue(*db, Event{.topic = "a", .payload = "{}"});
    EXPECT_THAT(outbox, Enqueued(EventLike({.topic = "a"})));
  }
  EXPECT_THAT(outbox, Enqueued());
}

// The kit's parts work together: a relay on a store in memory, stepped by hand.
TEST(ScriptedSink, FailsAsItIsTold) {
  ManualClock clock;
  const auto store = memory_store({}, clock);
  ScriptedSink::Script script;
  script.name = [](const EventView& event) { return std::string(event.topic); };
  script.next["a"] = {Outcome::Kind::retry};
  Relay relay(*store, {.name = "test"}, {}, clock);
  relay.add({.name = "out", .retry = {.first_delay = 1s}}, std::make_unique<ScriptedSink>(script));
  const auto writer = store->writer();
  writer->enqueue(std::vector{Event{.topic = "a", .payload = "{}"}, Event{.topic = "b", .payload = "{}"}});
  writer->commit();
  for (int i = 0; i < 500; ++i) {
    relay.step();
    clock.advance(10ms);
  }
  EXPECT_THAT(script.delivered, testing::ElementsAre("b", "a"));
}

}  // namespace
}  // namespace waybill
