#include <chrono>

#include "waybill/event_store.h"

#include "service/databases.h"

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class EventStoreSuite : public DatabaseTest {
 protected:
  static Event event(const std::string& name) {
    Event made;
    made.topic.assign("queue");
    made.type = "patient." + name;
    made.payload = "{\"name\": \"" + name + "\"}";
    return made;
  }
  std::int64_t append(const StreamId& stream, Expected expected, const std::vector<std::string>& names) {
    std::vector<Event> made;
    for (const auto& name : names) made.push_back(event(name));
    return events.append(*db, stream, expected, made);
  }
  // "1:arrived 2:called"
  std::string story(const StreamId& stream, std::int64_t after = 0, int events_max = 100) {
    std::string text;
    for (const auto& one : events.load(*db, stream, after, events_max))
      text += (text.empty() ? "" : " ") + std::to_string(one.version) + ':' + one.type.substr(8);
    return text;
  }

  EventStore events;
  const StreamId queue{.type = "waiting-queue", .id = "q-1"};
};

INSTANTIATE_TEST_SUITE_P(Databases, EventStoreSuite, every_database, database_name);

TEST_P(EventStoreSuite, WhatIsAppendedIsReadInOrder) {
  EXPECT_EQ(0, events.version(*db, queue));
  EXPECT_EQ(2, append(queue, Expected::none(), {"arrived", "called"}));
  EXPECT_EQ(3, append(queue, Expected::version(2), {"left"}));
  EXPECT_EQ("1:arrived 2:called 3:left", story(queue));
  EXPECT_EQ("2:called", story(queue, 1, 1));
  EXPECT_EQ("", story(queue, 3));
  EXPECT_EQ(3, events.version(*db, queue));
}

TEST_P(EventStoreSuite, EverythingOfAnEventIsKept) {
  Event full = event("arrived");
  full.id = EventId::make();
  full.metadata = R"({"actor": "ann"})";
  full.schema_id = "https://example.org/arrived";
  full.schema_version = 7;
  full.occurred_at = Time(std::chrono::sys_days(std::chrono::year(2026) / 2 / 19)) + std::chrono::microseconds(123456);
  full.payload = "{ \"quote\" : \"\\\"\\\\ ä {,}\" }";
  Event raw;
  raw.topic.assign("scan");
  raw.payload_bytes = std::string("\0\xff\x10{", 4);
  const auto before = std::chrono::system_clock::now() - std::chrono::minutes(1);
  events.append(*db, queue, Expected::none(), std::vector{full, raw});
  const auto read = events.load(*db, queue);
  ASSERT_EQ(2U, read.size());
  EXPECT_EQ(*full.id, read[0].id);
  EXPECT_EQ(queue, read[0].stream);
  EXPECT_EQ(1, read[0].version);
  EXPECT_LT(read[0].position, read[1].position);
  EXPECT_EQ("queue", read[0].topic);
  EXPECT_EQ("patient.arrived", read[0].type);
  EXPECT_EQ(*full.payload, read[0].payload) << "byte for byte";
  EXPECT_EQ(full.metadata, read[0].metadata);
  EXPECT_EQ(full.schema_id, read[0].schema_id);
  EXPECT_EQ(7, read[0].schema_version);
  EXPECT_EQ(*full.occurred_at, read[0].occurred_at);
  EXPECT_GT(read[0].recorded_at, before);
  EXPECT_EQ("scan", read[1].type);
  EXPECT_FALSE(read[1].payload_is_json);
  EXPECT_EQ(*raw.payload_bytes, read[1].payload);
  EXPECT_GT(read[1].occurred_at, before);
  EXPECT_EQ(std::nullopt, read[1].schema_version);
}

TEST_P(EventStoreSuite, WhatIsAppendedIsEnqueued) {
  Event arrived = event("arrived");
  arrived.id = EventId::make();
  arrived.key = "own key";
  arrived.routing_key = "r";
  arrived.headers = {{"h", "v"}};
  arrived.attempts_max = 3;
  events.append(*db, {.type = "waiting-queue", .id = "q-1", .tenant = "north"}, Expected::none(),
                std::vector{arrived, event("called")});
  const Rows rows = db->run(
      "SELECT id, tenant, topic, type, aggregate_type, aggregate_id, version, key, payload, "
      "routing_key, headers, attempts_max FROM " +
      table("event") + " ORDER BY seq");
  ASSERT_EQ(2U, rows.size());
  EXPECT_EQ(arrived.id->to_string(), rows.text(0, 0));
  EXPECT_EQ("north", rows.text(0, 1));
  EXPECT_EQ("queue", rows.text(0, 2));
  EXPECT_EQ("patient.arrived", rows.text(0, 3));
  EXPECT_EQ("waiting-queue/q-1", rows.text(0, 4) + '/' + rows.text(0, 5));
  EXPECT_EQ(1, rows.integer(0, 6));
  EXPECT_EQ("own key", rows.text(0, 7));
  EXPECT_EQ(*arrived.payload, rows.text(0, 8));
  EXPECT_EQ("r", rows.text(0, 9));
  EXPECT_EQ(R"({"h":"v"})", rows.text(0, 10));
  EXPECT_EQ(3, rows.integer(0, 11));
  EXPECT_EQ(2, rows.integer(1, 6));
  EXPECT_TRUE(rows.null(1, 7));
  const auto recorded = events.load(*db, {.type = "waiting-queue", .id = "q-1", .tenant = "north"});
  EXPECT_EQ(rows.text(1, 0), recorded.at(1).id.to_string()) << "it is one event, in both";
}

TEST_P(EventStoreSuite, AnotherVersionThanTheExpectedOneIsAConflict) {
  append(queue, Expected::none(), {"arrived", "called"});
  for (const std::int64_t expected : {0, 1, 3, 17}) {
    try {
      append(queue, Expected::version(expected), {"left"});
      ADD_FAILURE() << expected;
    } catch (const Conflict& conflict) {
      EXPECT_EQ(expected, conflict.expected());
      EXPECT_EQ(2, conflict.actual());
    }
  }
  EXPECT_THROW(append({.type = "waiting-queue", .id = "q-2"}, Expected::version(1), {"left"}), Conflict);
  EXPECT_EQ("1:arrived 2:called", story(queue));
  EXPECT_EQ(2, count(table("event")));
  EXPECT_EQ(3, append(queue, Expected::any(), {"left"}));
  EXPECT_EQ(1, append({.type = "waiting-queue", .id = "q-2"}, Expected::any(), {"arrived"}));
}

TEST_P(EventStoreSuite, AfterAConflictTheTransactionGoesOn) {
  append(queue, Expected::none(), {"arrived"});
  Transaction transaction(*db);
  append({.type = "room", .id = "r"}, Expected::none(), {"opened"});
  EXPECT_THROW(append(queue, Expected::none(), {"called"}), Conflict);
  append(queue, Expected::version(events.version(*db, queue)), {"called"});
  transaction.commit();
  EXPECT_EQ("1:arrived 2:called", story(queue));
  EXPECT_EQ("1:opened", story({.type = "room", .id = "r"}));
}

TEST_P(EventStoreSuite, AnAppendIsAllOrNothing) {
  Event wrong = event("wrong");
  wrong.payload = "no JSON";
  Event deduped = event("deduped");
  deduped.dedup_key = "once";
  for (const Event& bad : {wrong, deduped})
    EXPECT_THROW(events.append(*db, queue, Expected::none(), std::vector{event("arrived"), bad}), Error);
  EXPECT_THROW(append({.type = "", .id = "q"}, Expected::none(), {"arrived"}), Error);
  EXPECT_EQ("", story(queue));
  EXPECT_EQ(0, count(table("event")));
  {
    Transaction transaction(*db);
    append(queue, Expected::none(), {"arrived"});
  }
  EXPECT_EQ("", story(queue));
  EXPECT_EQ(0, count(table("event")));
  EXPECT_EQ(0, append(queue, Expected::none(), {})) << "nothing is appended, and nothing changes";
  EXPECT_THROW(append(queue, Expected::version(1), {}), Conflict);
}

TEST_P(EventStoreSuite, StreamsOfTenantsAndTypesAreApart) {
  const StreamId north{.type = "waiting-queue", .id = "q-1", .tenant = "north"};
  const StreamId room{.type = "room", .id = "q-1"};
  append(queue, Expected::none(), {"a"});
  append(north, Expected::none(), {"b"});
  append(room, Expected::none(), {"c"});
  EXPECT_EQ("1:a", story(queue));
  EXPECT_EQ("1:b", story(north));
  EXPECT_EQ("1:c", story(room));
}

TEST_P(EventStoreSuite, TheNewestSnapshotIsKept) {
  EXPECT_FALSE(events.snapshot(*db, queue));
  const std::string state("\0\xff\"state", 8);
  events.save_snapshot(*db, queue, {.version = 5, .state = state, .schema_version = 2});
  events.save_snapshot(*db, queue, {.version = 3, .state = "older"});
  auto found = events.snapshot(*db, queue);
  ASSERT_TRUE(found);
  EXPECT_EQ(5, found->version);
  EXPECT_EQ(state, found->state);
  EXPECT_EQ(2, found->schema_version);
  EXPECT_GT(found->taken_at, std::chrono::system_clock::now() - std::chrono::minutes(1));
  events.save_snapshot(*db, queue, {.version = 5, .state = "same version, other form", .schema_version = 3});
  EXPECT_EQ(3, events.snapshot(*db, queue)->schema_version);
  events.save_snapshot(*db, queue, {.version = 9, .state = ""});
  EXPECT_EQ(9, events.snapshot(*db, queue)->version);
  EXPECT_EQ("", events.snapshot(*db, queue)->state);
  EXPECT_FALSE(events.snapshot(*db, {.type = "waiting-queue", .id = "q-1", .tenant = "north"}));
}

TEST_P(EventStoreSuite, StreamsAreListedPageByPage) {
  for (const char* id : {"b", "a", "C", "ä"}) append({.type = "room", .id = id}, Expected::none(), {"x", "y"});
  append({.type = "room", .id = "b"}, Expected::any(), {"z"});
  append({.type = "rooms", .id = "d"}, Expected::none(), {"x"});
  append({.type = "room", .id = "e", .tenant = "north"}, Expected::none(), {"x"});
  std::vector<std::string> found;
  for (std::string after;;) {
    const auto page = events.streams(*db, "default", "room", after, 2);
    for (const auto& one : page) {
      EXPECT_GT(one.changed_at, std::chrono::system_clock::now() - std::chrono::minutes(1));
      found.push_back(one.stream.id + ':' + std::to_string(one.version));
    }
    if (page.size() < 2) break;
    after = page.back().stream.id;
  }
  EXPECT_THAT(found, ElementsAre("C:2", "a:2", "b:3", "ä:2"));
  EXPECT_THAT(events.streams(*db, "default", "nothing"), IsEmpty());
}

TEST_P(EventStoreSuite, LongStreamsAreAppendedAndReadInOneGo) {
  std::vector<Event> many(2'000, event("arrived"));
  EXPECT_EQ(2'000, events.append(*db, queue, Expected::none(), many));
  const auto read = events.load(*db, queue);
  ASSERT_EQ(2'000U, read.size());
  for (std::size_t i = 0; i < read.size(); ++i) ASSERT_EQ(static_cast<std::int64_t>(i + 1), read[i].version);
  EXPECT_EQ("2000", value("SELECT max(version) FROM " + table("event")));
}

TEST(EventStore, ASchemasNameIsChecked) {
  EXPECT_THROW(EventStore("x\"; DROP SCHEMA waybill; --"), Error);
}

}  // namespace
}  // namespace waybill
