// What an application may rely on when it enqueues: dedup keys, bytes that arrive as they were given, and limits.

#include <future>
#include <map>

#include <fmt/format.h>

#include "waybill/relay.h"
#include "waybill/sink.h"

#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

class WriterTest : public PostgresTest {
 protected:
  static Remedy remedy_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.remedy();
    }
    ADD_FAILURE() << "it succeeded";
    return Remedy::unknown;
  }
};

// COMMIT of a failed transaction is a ROLLBACK, and no error to the server.
TEST_F(WriterTest, CommitsNoFailedTransaction) {
  const auto writer = store->writer();
  writer->enqueue(std::vector{make_event("a")});
  connect()("ALTER FUNCTION waybill.first_id RENAME TO other_id");
  Event twice = make_event("b");
  twice.dedup_key = "once";
  EXPECT_THROW(writer->enqueue(std::vector{twice, twice}), Error);
  EXPECT_EQ(Remedy::fix_input, remedy_of([&] { writer->commit(); }));
  EXPECT_EQ(Remedy::fix_input, remedy_of([&] { writer->commit(); })) << "there is nothing left to commit";
  EXPECT_EQ("0", app("SELECT count(*) FROM waybill.event"));
}

TEST_F(WriterTest, ATransactionWhoseSessionWasEndedIsARetry) {
  const auto writer = store->writer();
  app("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'waybill writer' AND "
      "datname = current_database()");
  EXPECT_EQ(Remedy::retry, remedy_of([&] { writer->enqueue(std::vector{make_event("a")}); }));
}

TEST_F(WriterTest, Row2_ALostAnswerToCommitIsInDoubt) {
  const auto writer = store->writer();
  writer->enqueue(std::vector{make_event("a")});
  app("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'waybill writer' AND datname = "
      "current_database()");
  EXPECT_EQ(Remedy::unknown, remedy_of([&] { writer->commit(); }));
}

// More than a statement has parameters; and than this server has locks, which then says so.
TEST_F(WriterTest, ManyKeysAreSerializedInOneStatement) {
  std::vector<Event> events;
  for (int i = 0; i < 40'000; ++i) events.push_back(make_event("a", "k" + std::to_string(i)));
  try {
    enqueue(app.raw(), events, {.serialize = true});
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("max_locks_per_transaction"));
  }
  events.resize(3'000);
  app("BEGIN");
  enqueue(app.raw(), events, {.serialize = true});
  EXPECT_EQ("3000", app("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'"));
  app("ROLLBACK");
}

class DedupTest : public PostgresTest {
 protected:
  static Event once(const std::string& name) {
    Event event = make_event(name);
    event.dedup_key = "once";
    return event;
  }
  // Enqueues in a transaction of its own, on a thread.
  std::future<EventId> enqueue_later(const std::string& name) {
    return std::async(std::launch::async, [this, name] {
      Sql sql(url);
      return enqueue(sql.raw(), once(name));
    });
  }
  bool waiting() {
    return eventually([&] { return app.number("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0; });
  }
  std::string written() { return app("SELECT string_agg(payload #>> '{}', '' ORDER BY seq) FROM waybill.event"); }
};

TEST_F(DedupTest, TheSecondWaitsForTheFirstAndGetsItsId) {
  Sql first = connect();
  first("BEGIN");
  const EventId id = enqueue(first.raw(), once("a"));
  auto second = enqueue_later("b");
  ASSERT_TRUE(waiting());
  first("COMMIT");
  EXPECT_EQ(id, second.get());
  EXPECT_EQ("a", written());
}

TEST_F(DedupTest, TheSecondIsWrittenIfTheFirstIsRolledBack) {
  Sql first = connect();
  first("BEGIN");
  const EventId id = enqueue(first.raw(), once("a"));
  auto second = enqueue_later("b");
  ASSERT_TRUE(waiting());
  first("ROLLBACK");
  EXPECT_NE(id, second.get());
  EXPECT_EQ("b", written());
}

TEST_F(DedupTest, TheFunctionAndThePlainInsertAgree) {
  const std::string id = app("SELECT waybill.enqueue('t', '1', dedup_key => 'once')");
  EXPECT_EQ(id, app("SELECT waybill.enqueue('t', '2', dedup_key => 'once')"));
  app("INSERT INTO waybill.event (topic, payload, dedup_key) VALUES ('t', '3', 'once')");
  EXPECT_EQ(id, enqueue(app.raw(), once("d")).to_string());
  EXPECT_NE(id, app("SELECT waybill.enqueue('t', '4', dedup_key => 'once', tenant => 'other')"));
  EXPECT_EQ("14", written());
}

TEST_F(DedupTest, OfManyAtOnceOneIsWritten) {
  std::vector<std::future<EventId>> ids;
  for (int i = 0; i < 16; ++i) ids.push_back(enqueue_later("x"));
  std::set<std::string> distinct;
  for (auto& id : ids) distinct.insert(id.get().to_string());
  EXPECT_EQ(1U, distinct.size());
  EXPECT_EQ("x", written());
}

// Above READ COMMITTED a key that another transaction used meanwhile cannot be looked up: the transaction is to be
// retried, as after every serialization failure.
TEST_F(DedupTest, Row22_AboveReadCommittedAnUnseenFirstIsARetry) {
  for (const char* level : {"REPEATABLE READ", "SERIALIZABLE"}) {
    app("TRUNCATE waybill.event, waybill.dedup");
    Sql second = connect();
    second(std::string("BEGIN ISOLATION LEVEL ") + level);
    second("SELECT 1");
    const EventId id = enqueue(app.raw(), once("a"));
    try {
      enqueue(second.raw(), once("b"));
      ADD_FAILURE() << level << ": wrote a second one, or returned an id out of thin air";
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::retry, error.remedy()) << level;
    }
    second("ROLLBACK");
    second(std::string("BEGIN ISOLATION LEVEL ") + level);
    EXPECT_EQ(id, enqueue(second.raw(), once("b")));
    second("COMMIT");
    EXPECT_EQ("a", written());
  }
}

class BytesTest : public PostgresTest {
 protected:
  // Enqueues the event and returns the payload that a relay's sink is given.
  std::string delivered(const Event& event) {
    enqueue(app.raw(), event);
    return drain();
  }
  std::string drain() {
    std::string payload;
    int count = 0;
    Relay relay(*store, {.name = "test"});
    relay.add({.name = "out"}, sink_from([&](const EventView& view) {
                payload = view.payload;
                ++count;
                return Outcome::Kind::delivered;
              }));
    relay.drain({});
    EXPECT_EQ(1, count);
    return payload;
  }
};

TEST_F(BytesTest, JsonArrivesAsItWasGiven) {
  for (const std::string payload : {
           R"({"p":"C:\\dir\\n"})",             // backslashes
           "{ \"a\" :\t1.50,\n \"b\" : [ ] }",  // whitespace, and a number's zeros
           R"({"a":1,"a":2,"A":3})",            // names twice
           R"({"n":1e400,"m":-0.0,"big":12345678901234567890123456789})",
           "{\"u\":\"\xc3\xa9 \xf0\x9f\x98\x80 \\u00e9 \\/ '\"}",
           R"(  "only a text"  )",
           R"(null)",
       }) {
    Event event = make_event("");
    event.payload = payload;
    EXPECT_EQ(payload, delivered(event));
  }
}

TEST_F(BytesTest, JsonGivenBySqlArrivesAsItWasGiven) {
  app(R"(INSERT INTO waybill.event (topic, payload) VALUES ('t', '{ "p" : "C:\\dir", "n":1.50, "n":2 }'))");
  EXPECT_EQ(R"({ "p" : "C:\\dir", "n":1.50, "n":2 })", drain());
  app(R"(SELECT waybill.enqueue('t', '{ "p" : "C:\\dir", "n":1.50 }'))");
  EXPECT_EQ(R"({ "p" : "C:\\dir", "n":1.50 })", drain());
}

TEST_F(BytesTest, BytesArriveAsTheyWereGiven) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (const std::string& bytes : {all, std::string(), std::string(R"({"p":"C:\\dir"})"), std::string("\\x41")}) {
    Event event = make_event("");
    event.payload.reset();
    event.payload_bytes = bytes;
    EXPECT_EQ(bytes, delivered(event));
  }
}

TEST_F(BytesTest, AManyAtOnceArriveAsTheyWereGiven) {
  std::vector<Event> events(3, make_event(""));
  events[0].payload = R"({"p":"C:\\dir, \"x\" {}"})";
  events[1].payload.reset();
  events[1].payload_bytes = std::string("\0\\x\"{},'\xff", 9);
  events[2].payload = "{ \"NULL\" : null }";
  enqueue(app.raw(), events);
  std::vector<std::string> payloads;
  Relay relay(*store, {.name = "test"});
  relay.add({.name = "out"}, sink_from([&](const EventView& view) {
              payloads.emplace_back(view.payload);
              return Outcome::Kind::delivered;
            }));
  relay.drain({});
  EXPECT_THAT(payloads, testing::ElementsAre(*events[0].payload, *events[1].payload_bytes, *events[2].payload));
}

TEST_F(BytesTest, Row50_ALargePayloadIsDeliveredAndOneByteMoreRefused) {
  Event large = make_event(std::string(limits::payload_bytes_max - 2, 'x'));
  ASSERT_EQ(limits::payload_bytes_max, large.payload->size());
  const EventId id = enqueue(app.raw(), large);
  Reader reader(*store, "deferred");
  auto reading = reader.session->exchange({}, {reader.shards, 10, 1 << 20});
  bool deferred = false;
  for (const Chunk& chunk : reading.chunks)
    for (const EventView& event : chunk.events) deferred = deferred || event.payload_deferred;
  EXPECT_TRUE(deferred);
  EXPECT_TRUE(drain() == *large.payload);
  EXPECT_TRUE(store->inspector()->find(id)->event.payload == *large.payload);

  Event bytes = large;
  bytes.payload.reset();
  bytes.payload_bytes = std::string(limits::payload_bytes_max, '\0');
  EXPECT_TRUE(delivered(bytes) == *bytes.payload_bytes);

  large.payload->insert(1, "x");
  *bytes.payload_bytes += 'x';
  EXPECT_THROW(enqueue(app.raw(), large), Error);
  EXPECT_THROW(enqueue(app.raw(), bytes), Error);
  // Also where our own check is not asked.
  const std::string size = std::to_string(limits::payload_bytes_max);
  EXPECT_EQ("23514", app.refusal("INSERT INTO waybill.event (topic, payload) VALUES ('t', ('\"' || repeat('x', " +
                                 size + " - 1) || '\"')::json)"));
  EXPECT_EQ("", app.refusal("INSERT INTO waybill.event (topic, payload) VALUES ('t', ('\"' || repeat('x', " + size +
                            " - 2) || '\"')::json)"));
  EXPECT_EQ("23514", app.refusal("INSERT INTO waybill.event (topic) VALUES ('t')"));
  EXPECT_EQ("23514", app.refusal("INSERT INTO waybill.event (topic, payload, payload_bytes) VALUES ('t', '1', 'x')"));
}

// What the log itself holds events to, whoever writes them.
class LimitsTest : public PostgresTest {
 protected:
  // What is said against an event with this value in this column; empty: nothing.
  std::string said(const std::string& column, const std::string& value) {
    const bool pair = column.starts_with("aggregate_");
    const std::string other = column == "aggregate_id" ? "aggregate_type" : "aggregate_id";
    const std::string topic = column == "topic" ? "" : "topic, ";
    try {
      app("INSERT INTO waybill.event (payload, " + topic + (pair ? other + ", " : "") + column + ") SELECT '1', " +
          (topic.empty() ? "" : "'t', ") + (pair ? "'o', " : "") + value);
      return "";
    } catch (const std::runtime_error& error) {
      const std::string text = error.what();
      return text.substr(0, text.find('\n'));
    }
  }
};

TEST_F(LimitsTest, TextsHaveTheirLimits) {
  const std::map<std::string, int> most{
      {"tenant", 255}, {"topic", 255},        {"type", 255},        {"aggregate_type", 255}, {"aggregate_id", 512},
      {"key", 512},    {"content_type", 255}, {"routing_key", 255}, {"schema_id", 255},      {"dedup_key", 512}};
  app("CREATE TABLE stored AS SELECT repeat('x', 100000) AS long");
  ASSERT_LT(app.number("SELECT pg_column_size(long) FROM stored"), 2'000) << "it is compressed";
  for (const auto& [column, limit] : most) {
    const std::string refusal = fmt::format("23514: ERROR:  {} must have 1 to {} bytes", column, limit);
    EXPECT_EQ("", said(column, "'x'"));
    EXPECT_EQ("", said(column, fmt::format("repeat('x', {})", limit)));
    EXPECT_EQ(refusal, said(column, "''"));
    EXPECT_EQ(refusal, said(column, fmt::format("repeat('x', {})", limit + 1)));
    EXPECT_EQ(refusal, said(column, fmt::format("repeat(chr(228), {})", limit / 2 + 1))) << "bytes, not characters";
    EXPECT_EQ(refusal, said(column, "long FROM stored"));
  }
}

TEST_F(LimitsTest, SoHasTheRest) {
  const auto object = [](int bytes) {
    return fmt::format("('{{\"a\":\"' || repeat('x', {}) || '\"}}')::json", bytes - 8);
  };
  for (const auto& [column, limit] : std::map<std::string, int>{{"metadata", 65536}, {"headers", 16384}}) {
    const std::string refusal =
        fmt::format("23514: ERROR:  {} must be a JSON object of at most {} bytes", column, limit);
    EXPECT_EQ("", said(column, "'{}'::json"));
    EXPECT_EQ("", said(column, object(limit)));
    EXPECT_EQ(refusal, said(column, object(limit + 1)));
    for (const char* other : {"'[]'", "'1'", "'null'", "'\"{}\"'"})
      EXPECT_EQ(refusal, said(column, std::string(other) + "::json"));
  }
  EXPECT_EQ("", said("attempts_max", "1"));
  EXPECT_EQ("", said("attempts_max", "1000"));
  for (const char* wrong : {"0", "1001", "2147483647"})
    EXPECT_EQ("23514: ERROR:  attempts_max must be between 1 and 1000", said("attempts_max", wrong)) << wrong;
  EXPECT_EQ("", said("not_before", "clock_timestamp() + interval '366 days'"));
  EXPECT_EQ("", said("not_before", "'-infinity'::timestamptz"));
  for (const char* wrong : {"clock_timestamp() + interval '367 days'", "'infinity'::timestamptz"})
    EXPECT_EQ("23514: ERROR:  not_before must be at most 366 days ahead", said("not_before", wrong)) << wrong;
  EXPECT_EQ("23514: ERROR:  exactly one of payload and payload_bytes must be given",
            said("payload_bytes", "'x'::bytea"));
  EXPECT_EQ("23514", app.refusal("INSERT INTO waybill.event (topic, payload, aggregate_id) VALUES ('t', '1', 'x')"));
}

// What no message could carry would only be buried by the relay.
TEST_F(LimitsTest, HeadersAreStrings) {
  for (const char* good : {R"({"a":"b"})", R"( { "a" : "" , "b:1":"x, \"y\": 1" } )", R"({"a":"\u00e4 \ud83d\ude00"})",
                           "{\"a\":\"gr\xc3\xbcn\"}"})
    EXPECT_EQ("", said("headers", fmt::format("$${}$$::json", good))) << good;
  const std::string refusal =
      "23514: ERROR:  headers must be strings without control characters, and their names have 1 to 255 bytes and come "
      "once";
  for (const char* bad :
       {R"({"a":1})", R"({"a" : null})", R"({"a":["b"]})", R"({"a":"b","c":{"d":"e"}})", R"({"a":"b", "c":true})",
        R"({"":"b"})", R"({"a":"x\ny"})", R"({"a\u000d":"b"})", R"({"a":"\u007f"})", "{\"a\":\"\x7f\"}"})
    EXPECT_EQ(refusal, said("headers", fmt::format("$${}$$::json", bad))) << bad;
  const std::string longest(255, 'n');
  EXPECT_EQ("", said("headers", fmt::format(R"($${{"{}":"b"}}$$::json)", longest)));
  EXPECT_EQ(refusal, said("headers", fmt::format(R"($${{"{}n":"b"}}$$::json)", longest)));
}

}  // namespace
}  // namespace waybill
