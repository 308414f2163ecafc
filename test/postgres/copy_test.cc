// A log whose rows were copied: by logical replication, or by a dump of the data alone. Every event is there, and the
// copy goes on.

#include "postgres/anchor_fixture.h"

namespace waybill {
namespace {

using testing::HasSubstr;

void run_shell(const std::string& line) {
  run_command({"sh", "-c", "set -e; " + line}, "postgres");
}

std::string psql(const std::string& url) {
  return "psql -q -X -v ON_ERROR_STOP=1 -d '" + url + "' >/dev/null";
}

void copy_schema(const std::string& from, const std::string& to) {
  run_shell("pg_dump --schema-only --no-privileges --no-publications '" + from + "' | " + psql(to));
}

// --- By logical replication

class LogicalCopyTest : public AnchorTest {
 protected:
  LogicalCopyTest() : AnchorTest(publisher()) {}

  static TmpPostgres& publisher() {
    static TmpPostgres server(false, {"wal_level=logical", "max_replication_slots=50", "max_wal_senders=50"});
    return server;
  }
  static TmpPostgres& subscriber() {
    static TmpPostgres server(false, {"max_worker_processes=50", "max_logical_replication_workers=40",
                                      "max_sync_workers_per_subscription=30", "wal_retrieve_retry_interval=50ms"});
    return server;
  }

  // All rows, and the end of it: what the old server writes later does not arrive.
  std::string copied() {
    const std::string copy = subscriber().fresh_database();
    copy_schema(url, copy);
    app("CREATE PUBLICATION everything FOR ALL TABLES");
    Sql there(copy);
    const std::string name = "copy_" + app("SELECT current_database()");
    there("CREATE SUBSCRIPTION " + name + " CONNECTION '" + url + "' PUBLICATION everything");
    EXPECT_TRUE(eventually(
        [&] { return there("SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'") == "0"; }, 60s));
    there("DROP SUBSCRIPTION " + name);
    app("DROP PUBLICATION everything");
    return copy;
  }
};

TEST_F(LogicalCopyTest, Row33_ACopyByLogicalReplicationGoesOnWithoutALoss) {
  make_history();
  app("INSERT INTO waybill.stream_event (tenant, aggregate_type, aggregate_id, version, id, topic, type, payload, "
      "occurred_at) SELECT 'default', 'order', 'o-' || i, 1, waybill.new_id(), 't', 't', '1', now() "
      "FROM generate_series(1, 30) i");
  // What the log has let go of is still known by its number.
  const std::string last =
      app("SELECT waybill.enqueue('t', '\"k0/0\"', key => 'k0'); SELECT max(seq) FROM waybill.event");
  app("DELETE FROM waybill.event WHERE seq = " + last);
  app("INSERT INTO waybill.attempt VALUES ('out', 0, " + last + ", 1, clock_timestamp(), 'r', 'retry', '')");

  const std::string copy_url = copied();
  Sql there(copy_url);
  ASSERT_EQ("1", there("SELECT last_value FROM waybill.event_seq_seq")) << "sequences are not copied";
  // The application is quicker than the operator.
  const int before = next_;
  write(there, 20);
  const auto copy = postgres_store({.url = copy_url});
  EXPECT_THAT(why_unreadable(*copy), HasSubstr("waybill anchor --dry-run"));
  EXPECT_TRUE(copy->upkeep()->anchor({.id = EventId::make()}, false).needed);

  std::set<std::string> written_there;
  for (int i = before + 1; i <= next_; ++i)
    written_there.insert("k" + std::to_string((i - 1) % 7) + "/" + std::to_string(i));
  EXPECT_EQ(written_there.size(), there.number("SELECT count(*) FROM waybill.event WHERE seq > " + last));
  EXPECT_EQ("0", there("SELECT count(*) - count(DISTINCT seq) FROM waybill.event"));
  expect_nothing_lost(*copy, written_there);
  Reader out(*copy, "out");
  out.read_all();
  EXPECT_THAT(out.settle_all(), testing::IsEmpty());
  out.leave();
  EXPECT_EQ("", there.refusal("SELECT waybill.append('order', 'o-1', 1, 'order.paid', '1')"));
}

// Whatever a sequence gives out next is above all that is stored.
TEST_F(AnchorTest, EverySequenceIsRaisedAboveItsColumn) {
  put("a");
  app("SELECT waybill.append('order', 'o-1', 0, 'order.placed', '1')");
  Reader out(*store);
  out.read_all();
  out.settle_all();
  out.leave();
  const auto sequences = app.column("SELECT sequencename FROM pg_sequences WHERE schemaname = 'waybill' ORDER BY 1");
  EXPECT_THAT(sequences, testing::ElementsAre("cursor_id_seq", "event_seq_seq", "stream_event_position_seq"));
  for (const std::string& sequence : sequences) app("ALTER SEQUENCE waybill." + sequence + " RESTART");
  app("UPDATE waybill.identity SET timeline = 77");  // A reason to anchor.
  EXPECT_TRUE(store->upkeep()->anchor({.id = EventId::make()}, false).needed);
  EXPECT_EQ("", app.refusal("SELECT waybill.append('order', 'o-2', 0, 'order.placed', '1')"));
  EXPECT_EQ("3", app("SELECT count(DISTINCT seq) FROM waybill.event"));
  Reader again(*store);
  again.read_all();
  EXPECT_NO_THROW(again.settle_all());
}

// --- By a dump of the data

class DataRestoreTest : public PostgresTest {
 protected:
  static std::vector<std::string> rows_of_all_tables(Sql& sql) {
    std::vector<std::string> all;
    for (const std::string& table :
         sql.column("SELECT tablename FROM pg_tables WHERE schemaname = 'waybill' AND tablename <> 'event' ORDER BY 1"))
      all.push_back(table + ": " +
                    sql("SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, ' ' ORDER BY t::text)), '') FROM "
                        "waybill." +
                        table + " t"));
    return all;
  }

  void fill() {
    for (int i = 0; i < 10; ++i) {
      Event event = make_event(std::to_string(i));
      if (i % 2 == 0) event.dedup_key = "once-" + std::to_string(i);
      enqueue(app.raw(), event);
    }
    Reader out(*store);
    out.read_all();
    out.settle_all();
    out.leave();
    app("SELECT waybill.append('order', 'o-1', 0, 'order.placed', '1'); SELECT waybill.first_time('billing', 'm-1'); "
        "SELECT waybill.idempotency_end('k', 'f', 200, kept => '1 h'); UPDATE waybill.idempotency SET "
        "answered_at = now() - interval '1 d', expires_at = now() - interval '1 h'");
  }

  // The rows are there, dedup keys still hold, and new events get new numbers.
  void expect_complete(const std::string& copy_url) {
    Sql there(copy_url);
    EXPECT_EQ(rows_of_all_tables(app), rows_of_all_tables(there));
    EXPECT_EQ("11", there("SELECT count(*) FROM waybill.event"));
    Event again = make_event("again");
    again.dedup_key = "once-4";
    EXPECT_EQ(app("SELECT id FROM waybill.dedup WHERE key = 'once-4'"), enqueue(there.raw(), again).to_string());
    enqueue(there.raw(), make_event("new"));
    EXPECT_EQ("12", there("SELECT count(DISTINCT seq) FROM waybill.event"));
  }
};

TEST_F(DataRestoreTest, Row33_ADumpOfTheDataAloneBringsEveryRowBack) {
  fill();
  app("CREATE DATABASE schema_only");
  copy_schema(url, server.url("schema_only"));
  const std::string dump = "pg_dump --data-only '" + url + "' ";
  const struct {
    const char* name;
    std::vector<std::string> dumps;  // loaded one after the other
  } restores[] = {{"keys_first", {dump}},
                  {"events_first", {dump + "-t 'waybill.event_*'", dump + "-T 'waybill.event_*'"}},
                  {"no_triggers", {dump + "--disable-triggers"}},
                  {"inserts", {dump + "--column-inserts"}}};
  for (const auto& [name, dumps] : restores) {
    SCOPED_TRACE(name);
    app("CREATE DATABASE " + std::string(name) + " TEMPLATE schema_only");
    for (const std::string& part : dumps) run_shell(part + " | " + psql(server.url(name)));
    expect_complete(server.url(name));
  }
}

}  // namespace
}  // namespace waybill
