// What administrators and strangers can set in our way: timeouts, isolation, functions and operators on the search
// path.

#include <atomic>

#include "waybill/relay.h"
#include "waybill/sink.h"

#include "postgres/postgres_fixture.h"
#include "support/tmp_pgbouncer.h"

namespace waybill {
namespace {

class SettingsTest : public PostgresTest, public testing::WithParamInterface<bool> {
 protected:
  SettingsTest() : PostgresTest(4) {}

  // By itself or through a pooler.
  std::string reached_by() {
    if (!GetParam()) return url;
    static TmpPgBouncer pooler(TmpPostgres::shared().port());
    return pooler.url(name_);
  }

  static std::int64_t drain(Store& store) {
    std::int64_t count = 0;
    Relay relay(store, {.name = "test"});
    relay.add({.name = "out"}, sink_from([&](const EventView&) {
                ++count;
                return Outcome::Kind::delivered;
              }));
    relay.drain({});
    return count;
  }

  // They are opened again, with the database's settings as they are by then.
  void end_sessions() {
    app("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
        "pg_backend_pid()");
  }

  const std::string name_ = app("SELECT current_database()");
};

INSTANTIATE_TEST_SUITE_P(, SettingsTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "ThroughAPooler" : "ByItself"; });

// Set for the role or the database, as administrators do against applications that forget their transactions.
TEST_P(SettingsTest, TimeoutsAndModesOfTheDatabaseAreNotOurs) {
  const auto reached = postgres_store({.url = reached_by()});
  put("first");
  EXPECT_EQ(1, drain(*reached));
  app("INSERT INTO waybill.event (topic, payload, key) SELECT 't', '1', n::text FROM generate_series(1, 60000) n");
  for (const char* setting :
       {"statement_timeout = '25ms'", "lock_timeout = '1ms'", "idle_in_transaction_session_timeout = '5ms'",
        "idle_session_timeout = '20ms'", "default_transaction_isolation = 'serializable'",
        "client_min_messages = error", "search_path = nowhere"})
    app("ALTER DATABASE " + name_ + " SET " + setting);
  EXPECT_EQ(60'000, drain(*reached));
  EXPECT_EQ(0, reached->inspector()->status().destinations.at(0).pending.value);
  EXPECT_FALSE(reached->follow()->read("", 10).items.empty());
  reached->operate()->pause({.id = EventId::make(), .by = "me"}, "out", true);
  reached->upkeep()->clean({});
}

// Somebody has frozen the database, as before a move to another server: nothing is written to it, and nothing is lost.
TEST_P(SettingsTest, ADatabaseThatIsReadOnlyByDefaultIsWaitedFor) {
  const auto reached = postgres_store({.url = reached_by()});
  std::atomic<int> delivered = 0;
  Relay relay(*reached, {.name = "test", .lease = 1s});
  relay.add({.name = "out"}, sink_from([&](const EventView&) {
              ++delivered;
              return Outcome::Kind::delivered;
            }));
  std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  put("a");
  ASSERT_TRUE(eventually([&] { return delivered == 1; }));
  app("ALTER DATABASE " + name_ + " SET default_transaction_read_only = on");
  end_sessions();
  put("b");
  EXPECT_FALSE(eventually([&] { return delivered == 2; }, 300ms));
  app("ALTER DATABASE " + name_ + " RESET default_transaction_read_only");
  for (int tries = 0; tries < 5 && delivered < 2; ++tries) {  // A session that was just being opened is still frozen.
    end_sessions();
    eventually([&] { return delivered >= 2; }, 4s);
  }
  EXPECT_GE(delivered, 2) << "what was under way when a session ended comes again";
}

// Whatever we call, by whatever name: a stranger's is a better match for some types, and is on the search path wherever
// an application may create in `public`. Each of his says so in a table of his.
class StrangersTest : public SettingsTest {
 protected:
  void SetUp() override {
    app("CREATE TABLE public.caught (what text)");
    plant_functions();
    plant_operators();
  }

  // All functions of the server's that our own functions and statements may mean, for types that they do not have.
  void plant_functions() {
    app(R"(DO $do$
      DECLARE f record;
      BEGIN
        FOR f IN
          SELECT DISTINCT p.proname AS name, n AS count
          FROM pg_proc p CROSS JOIN generate_series(1, 4) n
          WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f'
            AND p.proname IN ('format', 'concat', 'concat_ws', 'left', 'right', 'substr', 'replace', 'repeat', 'encode',
              'octet_length', 'length', 'date_part', 'make_interval', 'to_char', 'hashtextextended', 'current_setting',
              'set_config', 'pg_notify', 'json_typeof', 'array_length', 'cardinality', 'unnest', 'generate_series',
              'pg_snapshot_xmax', 'pg_snapshot_xip', 'pg_visible_in_snapshot', 'quote_ident', 'jsonb_build_object',
              'json_build_object', 'array_replace', 'md5', 'random', 'pg_try_advisory_xact_lock', 'pg_column_size',
              'pg_advisory_xact_lock', 'pg_walfile_name', 'clock_timestamp', 'now', 'upper', 'lower', 'abs', 'trunc')
        LOOP
          FOR t IN 1..4 LOOP
            DECLARE args text := (SELECT string_agg((ARRAY['text', 'integer', 'bigint', 'anyelement'])[t], ', ')
                                  FROM generate_series(1, f.count));
            BEGIN
              EXECUTE format($f$CREATE FUNCTION public.%I(%s) RETURNS text LANGUAGE plpgsql AS $b$ BEGIN
                INSERT INTO public.caught VALUES (%L); RAISE 'planted: %%', %L; END $b$ $f$, f.name, args,
                f.name || '(' || args || ')', f.name);
            END;
          END LOOP;
        END LOOP;
      END $do$)");
  }

  void plant_operators() {
    app(R"(DO $do$
      DECLARE o text; l text; r text; number integer := 0;
      BEGIN
        FOREACH o IN ARRAY ARRAY['+', '-', '*', '/', '%', '&', '||', '=', '<>', '<', '>', '<=', '>=', '~~', '->', '->>', '#>>'] LOOP
          FOREACH l IN ARRAY ARRAY['text', 'smallint', 'integer', 'bigint', 'interval', 'timestamptz', 'varchar', 'oid'] LOOP
            FOREACH r IN ARRAY ARRAY['text', 'smallint', 'integer', 'bigint', 'interval', 'timestamptz', 'varchar', 'oid'] LOOP
              CONTINUE WHEN EXISTS (SELECT FROM pg_operator p WHERE p.oprname = o AND p.oprleft = l::regtype
                                    AND p.oprright = r::regtype);
              number := number + 1;
              EXECUTE format($f$CREATE FUNCTION public.planted_%s(%s, %s) RETURNS boolean LANGUAGE plpgsql AS $b$ BEGIN
                INSERT INTO public.caught VALUES (%L); RAISE 'planted: %%', %L; END $b$ $f$, number, l, r,
                l || ' ' || o || ' ' || r, o);
              EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.planted_%s)',
                             o, l, r, number);
            END LOOP;
          END LOOP;
        END LOOP;
      END $do$)");
  }

  std::string caught() { return app("SELECT string_agg(DISTINCT what, '; ') FROM public.caught"); }
};

INSTANTIATE_TEST_SUITE_P(, StrangersTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "ThroughAPooler" : "ByItself"; });

TEST_P(StrangersTest, Security18_NothingOfTheirsRunsAsTheRelayOrAnOperator) {
  const auto reached = postgres_store({.url = reached_by()});
  put("a");
  put("b", "other");
  EXPECT_EQ(2, drain(*reached));
  const auto writer = reached->writer();
  writer->enqueue(std::vector{make_event("c")});
  writer->commit();
  const auto inspector = reached->inspector();
  inspector->status();
  inspector->examine();
  const auto list = inspector->list({.topic = "t*"});
  ASSERT_FALSE(list.events.empty());
  inspector->find(list.events.front().id);
  inspector->undelivered({});
  inspector->blocked_keys("out", 10);
  reached->follow()->read(reached->follow()->read("now", 1).place, 10);
  const auto person = reached->operate();
  const Operation operation{.id = EventId::make(), .by = "me"};
  person->count({.destination = "out"});
  person->redrive(operation, {.destination = "out", .topic = "t*"}, 10);
  person->pause({.id = EventId::make(), .by = "me"}, "out", true);
  person->rewind({.id = EventId::make(), .by = "me"}, "out", {}, false);
  person->history(10);
  person->forget({.id = EventId::make(), .by = "me"}, "out", false);
  reached->upkeep()->clean({.events_older_than = 1h});
  reached->upkeep()->anchor({.id = EventId::make(), .by = "me"}, true);
  reached->schema()->migrate();
  EXPECT_EQ("", caught());
}

// In a session of the application's own, whose search path has them.
TEST_P(StrangersTest, Security18_NothingOfTheirsRunsWhereApplicationsCallUs) {
  Sql client(reached_by());
  client("SELECT waybill.enqueue('t', '1', key => 'k', dedup_key => 'd', serialize => true)");
  client("INSERT INTO waybill.event (topic, payload) VALUES ('t', '1')");
  client("SELECT * FROM waybill.outbox");
  client("SELECT * FROM waybill.outbox_events");
  client("SELECT waybill.pending('out')");
  client("BEGIN");
  client("SELECT waybill.first_time('consumer', 'message')");
  client("SELECT * FROM waybill.idempotency_begin('key', 'fingerprint')");
  client("SELECT waybill.append('order', '1', 0, 't', '{}')");
  client("COMMIT");
  client("SELECT * FROM waybill.projection_progress");
  EXPECT_EQ("", caught());
}

}  // namespace
}  // namespace waybill
