// Who may do what: five roles, and functions that nobody can turn against their owner.

#include "waybill/relay.h"
#include "waybill/sink.h"

#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

constexpr const char* denied = "42501";

class RightsTest : public PostgresTest {
 protected:
  // The URL of a user with that role and nothing else.
  std::string user_with(const std::string& role) {
    const std::string user = "only_" + role;
    app("DO $$ BEGIN CREATE USER " + user + "; EXCEPTION WHEN duplicate_object THEN NULL; END $$; GRANT waybill_" +
        role + " TO " + user);
    return server.url(app("SELECT current_database()"), user);
  }
};

TEST_F(RightsTest, Security15_EnqueueMayWriteTheContractsColumnsAndNothingElse) {
  Sql user(user_with("enqueue"));
  Event event = make_event("a");
  event.dedup_key = "once";
  event.metadata = "{}";
  const EventId id = enqueue(user.raw(), event, {.serialize = true});
  EXPECT_EQ(id, enqueue(user.raw(), event));
  EXPECT_EQ(id, enqueue(user.raw(), std::vector{event, make_event("b")}).at(0));
  with_retries(*borrow(user.raw()), [&](Connection& line) {
    EXPECT_EQ(id, enqueue(line, event));
    enqueue(line, make_event("c"));
  });
  EXPECT_EQ(36U, user("SELECT waybill.enqueue('t', '1', key => 'k', serialize => true)").size());
  EXPECT_EQ("", user.refusal("INSERT INTO waybill.event (topic, payload) VALUES ('t', '1')"));
  for (const char* column : {"seq", "xid", "slot", "shard", "octets", "created_at", "woke"})
    EXPECT_EQ(denied, user.refusal(std::string("INSERT INTO waybill.event (topic, payload, ") + column +
                                   ") VALUES ('t', '1', DEFAULT)"))
        << column;
  EXPECT_EQ(denied, user.refusal("INSERT INTO waybill.event_0 (topic, payload, slot) VALUES ('t', '1', 0)"));
  for (const char* table : {"event", "event_0", "dedup", "cursor", "lease", "relay", "destination", "undelivered"}) {
    EXPECT_EQ(denied, user.refusal(std::string("SELECT 1 FROM waybill.") + table)) << table;
    EXPECT_EQ(denied, user.refusal(std::string("DELETE FROM waybill.") + table)) << table;
  }
  EXPECT_EQ(denied, user.refusal("UPDATE waybill.event SET topic = 'u'"));
  EXPECT_EQ(denied, user.refusal("TRUNCATE waybill.event"));
}

TEST_F(RightsTest, Security14_RelayCanRunARelayAndCannotTouchEvents) {
  for (const char* name : {"a", "b", "c"}) put(name, name);
  const std::string user_url = user_with("relay");
  const auto users = postgres_store({.url = user_url});
  int delivered = 0;
  Relay relay(*users, {.name = "test", .batch = 1});
  relay.add({.name = "out"}, sink_from([&](const EventView&) {
              ++delivered;
              return Outcome::Kind::delivered;
            }));
  relay.drain({});
  EXPECT_EQ(3, delivered);
  EXPECT_EQ(0, users->inspector()->status().destinations.at(0).pending.value);
  Reader(*users, "other", Start::now).leave();

  Sql user(user_url);
  EXPECT_EQ(denied, user.refusal("INSERT INTO waybill.event (topic, payload) VALUES ('t', '1')"));
  EXPECT_EQ(denied, user.refusal("SELECT waybill.enqueue('t', '1')"));
  EXPECT_EQ(denied, user.refusal("UPDATE waybill.event SET topic = 'u'"));
  EXPECT_EQ(denied, user.refusal("DELETE FROM waybill.event"));
  EXPECT_EQ(denied, user.refusal("TRUNCATE waybill.event"));
  EXPECT_EQ(denied, user.refusal("UPDATE waybill.cursor SET count = 0")) << "the cursor is appended";
  EXPECT_EQ(denied, user.refusal("DELETE FROM waybill.cursor"));
  EXPECT_EQ(denied, user.refusal("UPDATE waybill.identity SET shards = 1"));
  EXPECT_EQ(denied, user.refusal("CREATE TABLE waybill.mine (n int)"));
}

TEST_F(RightsTest, RelayCannotForgeAPayloadNorCleanWhatIsYoung) {
  Sql user(user_with("relay"));
  for (const char* column : {"payload", "payload_bytes", "headers", "redrives"})
    EXPECT_EQ(denied, user.refusal(std::string("UPDATE waybill.undelivered SET ") + column + " = NULL")) << column;
  EXPECT_EQ(denied, user.refusal("INSERT INTO waybill.undelivered (destination, payload) VALUES ('out', '1')"));
  for (const char* ages : {"'0', '90 d', '90 d'", "'7 d', '59 min', '90 d'", "'7 d', '90 d', '1 s'"})
    EXPECT_EQ(denied, user.refusal(std::string("SELECT waybill.sweep(") + ages + ", 1, false)")) << ages;
  EXPECT_EQ(denied, user.refusal("SELECT waybill.empty_slot(1::smallint, '0 s')"));
  constexpr const char* null_value = "22004";
  EXPECT_EQ(null_value, user.refusal("SELECT waybill.empty_slot(1::smallint, NULL)"));
  for (const char* call : {"sweep(NULL, '1 h', '1 h', 1, false)", "sweep('1 h', '1 h', '1 h', NULL, false)",
                           "sweep('1 h', '1 h', '1 h', 1, NULL)", "sweep_inbox(NULL, 1, false)",
                           "sweep_inbox('1 h', NULL, false)", "sweep_idempotency(1, NULL)"})
    EXPECT_EQ(null_value, user.refusal(std::string("SELECT waybill.") + call)) << call;
  EXPECT_EQ("", user.refusal("SELECT waybill.sweep('1 h', '1 h', '1 h', 1, false)"));
  EXPECT_EQ(denied, user.refusal("SELECT waybill.sweep_inbox('59 min', 1, false)"));
  EXPECT_EQ("", user.refusal("SELECT waybill.sweep_inbox('1 h', 1, false)"));
  EXPECT_EQ("", user.refusal("SELECT waybill.sweep_idempotency(1, false)"));
  EXPECT_EQ("", Sql(user_with("operator")).refusal("SELECT waybill.sweep('0', '0', '0', 1, false)"));
}

TEST_F(RightsTest, Security8_NobodyCleansAwayWhatPeopleHaveJustDone) {
  Reader(*store).leave();
  app("SELECT waybill.pause('out'); SELECT waybill.sweep('0', '0', '0', 100, false)");
  EXPECT_EQ(1, app.number("SELECT count(*) FROM waybill.operation"));
}

TEST_F(RightsTest, Security15_TheRolesMayNotReadThis) {
  EXPECT_THAT(
      app.column(
          "SELECT r.name || ': ' || string_agg(t.tablename, ' ' ORDER BY t.tablename) FROM pg_tables t CROSS JOIN "
          "(VALUES ('waybill_operator'), ('waybill_reader'), ('waybill_relay')) r (name) WHERE t.schemaname = "
          "'waybill' AND NOT has_table_privilege(r.name, 'waybill.' || t.tablename, 'SELECT') GROUP BY r.name"),
      testing::ElementsAre("waybill_relay: idempotency inbox snapshot"));
  EXPECT_THAT(app.column("SELECT r.name || ': ' || string_agg(t.tablename, ' ' ORDER BY t.tablename) FROM pg_tables t "
                         "CROSS JOIN (VALUES ('waybill_enqueue'), ('waybill_service')) r (name) WHERE t.schemaname = "
                         "'waybill' AND has_table_privilege(r.name, 'waybill.' || t.tablename, 'SELECT') GROUP BY "
                         "r.name"),
              testing::ElementsAre("waybill_enqueue: identity migration",
                                   "waybill_service: idempotency identity inbox migration projection snapshot "
                                   "stream_event"));
}

// Who may write what, all of it.
TEST_F(RightsTest, Security14_TheRolesMayWriteThisAndNothingElse) {
  EXPECT_THAT(
      app.column(
          "SELECT grantee || ': ' || string_agg(what, ', ' ORDER BY what COLLATE \"C\") FROM ("
          "SELECT grantee, table_name || ' ' || string_agg(privilege_type, ' ' ORDER BY privilege_type) AS what "
          "FROM information_schema.table_privileges WHERE table_schema = 'waybill' AND grantee LIKE 'waybill%' AND "
          "privilege_type <> 'SELECT' AND table_name NOT LIKE '%outbox%' GROUP BY grantee, table_name) w "
          "GROUP BY grantee ORDER BY grantee"),
      testing::ElementsAre(
          "waybill_relay: attempt INSERT, cursor INSERT, destination INSERT, kept INSERT, lease INSERT, "
          "relay DELETE INSERT UPDATE, rules INSERT, undelivered DELETE",
          "waybill_service: idempotency DELETE INSERT, inbox INSERT, projection DELETE INSERT UPDATE, snapshot "
          "DELETE INSERT UPDATE"));
  EXPECT_THAT(
      app.column(
          "SELECT grantee || ' ' || table_name || ' ' || privilege_type || ': ' || string_agg(column_name, ' ' ORDER "
          "BY "
          "column_name COLLATE \"C\") FROM information_schema.column_privileges c WHERE table_schema = 'waybill' AND "
          "grantee LIKE 'waybill%' AND privilege_type <> 'SELECT' AND table_name NOT LIKE '%outbox%' AND NOT EXISTS ("
          "SELECT FROM information_schema.table_privileges t WHERE t.table_schema = c.table_schema AND t.table_name = "
          "c.table_name AND t.grantee = c.grantee AND t.privilege_type = c.privilege_type) "
          "GROUP BY grantee, table_name, privilege_type ORDER BY 1"),
      testing::ElementsAre(
          "waybill_enqueue event INSERT: aggregate_id aggregate_type attempts_max content_type dedup_key expires_at "
          "headers id key metadata not_before occurred_at payload payload_bytes routing_key schema_id schema_version "
          "tenant topic type version",
          "waybill_relay lease UPDATE: crashes cursor in_doubt_until owner since term",
          "waybill_relay undelivered INSERT: attempts blamed blocks crashes destination due error id in_doubt key sending "
          "seq shard slot standing",
          "waybill_relay undelivered UPDATE: attempts blamed blocks crashes due error in_doubt key sending since standing",
          "waybill_service event INSERT: aggregate_id aggregate_type attempts_max content_type dedup_key expires_at "
          "headers id key metadata not_before occurred_at payload payload_bytes routing_key schema_id schema_version "
          "tenant topic type version",
          "waybill_service stream_event INSERT: aggregate_id aggregate_type id metadata occurred_at payload "
          "payload_bytes schema_id schema_version tenant topic type version"));
  EXPECT_THAT(
      app.column("SELECT r.rolname || ': ' || string_agg(p.proname, ' ' ORDER BY p.proname) FROM pg_proc p CROSS JOIN "
                 "LATERAL aclexplode(p.proacl) a JOIN pg_roles r ON r.oid = a.grantee WHERE p.pronamespace = "
                 "'waybill'::regnamespace AND r.rolname LIKE 'waybill%' GROUP BY r.rolname ORDER BY 1"),
      testing::ElementsAre(
          "waybill_enqueue: enqueue first_id new_id",
          "waybill_operator: clean_alone dismiss edit empty_slot flush forget keep note_timeline pause "
          "redrive resume rewind sweep sweep_idempotency sweep_inbox",
          "waybill_reader: flush",
          "waybill_relay: clean_alone empty_slot flush keep note_timeline sweep sweep_idempotency sweep_inbox",
          "waybill_service: append enqueue first_id first_time idempotency_begin idempotency_end "
          "new_id try_append"));
}

// LOCK TABLE of a view locks all that it reads, with the rights of its owner.
TEST_F(RightsTest, NobodyLocksTheTablesThroughAView) {
  const auto views = app.column("SELECT viewname FROM pg_views WHERE schemaname = 'waybill'");
  EXPECT_THAT(views, testing::IsSupersetOf({"outbox", "outbox_events", "email_outbox", "place", "standing"}));
  int locks = 0;
  for (const char* role : {"enqueue", "service", "relay", "operator", "reader"}) {
    Sql user(user_with(role));
    const std::string held =
        "SELECT string_agg(c.relname || ' ' || l.mode, ', ') FROM pg_locks l JOIN pg_class c ON "
        "c.oid = l.relation WHERE c.relnamespace = 'waybill'::regnamespace AND c.relkind <> 'v' "
        "AND l.mode <> 'AccessShareLock' AND l.pid = " +
        user("SELECT pg_backend_pid()");
    for (const std::string& view : views) {
      for (const char* mode : {"ROW EXCLUSIVE", "SHARE", "ACCESS EXCLUSIVE"}) {
        const bool refused = !user.refusal("BEGIN; LOCK TABLE waybill." + view + " IN " + mode + " MODE").empty();
        locks += refused ? 0 : 1;
        EXPECT_TRUE(refused || role == std::string("operator")) << role << ' ' << view << ' ' << mode;
        EXPECT_EQ("", app(held)) << role << ' ' << view << ' ' << mode;
        user("ROLLBACK");
      }
    }
  }
  EXPECT_EQ(9, locks) << "an operator may lock the three views that he may delete from, and nothing below them";
}

TEST_F(RightsTest, ServiceHandlesMessagesAndAnswersRequestsAndUndoesNeither) {
  Sql user(user_with("service"));
  user("SET waybill.tenant = 'default'");
  EXPECT_EQ("t", user("SELECT waybill.first_time('billing', 'm-1')"));
  EXPECT_EQ("first", user("SELECT outcome FROM waybill.idempotency_begin('k', 'f')"));
  user("SELECT waybill.idempotency_end('k', 'f', 200)");
  EXPECT_EQ("again", user("SELECT outcome FROM waybill.idempotency_begin('k', 'f')"));
  EXPECT_EQ(denied, user.refusal("DELETE FROM waybill.inbox"));
  EXPECT_EQ(denied, user.refusal("UPDATE waybill.inbox SET handled_at = now()"));
  EXPECT_EQ(denied, user.refusal("UPDATE waybill.idempotency SET status = 201"));
  EXPECT_EQ(denied, user.refusal("SELECT waybill.sweep_inbox('1 d', 1, false)"));
  EXPECT_EQ(denied, user.refusal("SELECT waybill.sweep_idempotency(1, false)"));
  EXPECT_EQ("", user.refusal("DELETE FROM waybill.idempotency WHERE key = 'k'")) << "to forget an answer";
  for (const char* role : {"enqueue", "relay", "operator", "reader"}) {
    Sql other(user_with(role));
    EXPECT_EQ(denied, other.refusal("SELECT waybill.first_time('billing', 'm-2')")) << role;
    EXPECT_EQ(denied, other.refusal("SELECT waybill.idempotency_begin('k', 'f')")) << role;
    EXPECT_EQ(denied, other.refusal("SELECT waybill.idempotency_end('k', 'f', 200)")) << role;
  }
}

TEST_F(RightsTest, WhoMayReadTheLogCanFollowIt) {
  put("a");
  for (const char* role : {"relay", "operator", "reader"}) {
    const auto users = postgres_store({.url = user_with(role)});
    EXPECT_EQ(1U, users->follow()->read("", 10).items.size()) << role;
    Sql user(user_with(role));
    EXPECT_EQ("t", user("BEGIN; SELECT waybill.flush(); SELECT pg_current_xact_id_if_assigned() IS NOT NULL"))
        << "its commit has something to bring to disk";
  }
}

TEST_F(RightsTest, ReaderReadsAndWritesNothing) {
  const EventId id = put("a");
  Reader(*store).leave();
  const std::string user_url = user_with("reader");
  const auto users = postgres_store({.url = user_url});
  const auto inspector = users->inspector();
  EXPECT_EQ(1, inspector->status().events.value);
  EXPECT_TRUE(inspector->find(id));
  EXPECT_EQ(1U, inspector->list({}).events.size());
  EXPECT_FALSE(inspector->examine().empty());
  Sql user(user_url);
  for (const std::string& table : app.column("SELECT tablename FROM pg_tables WHERE schemaname = 'waybill'")) {
    EXPECT_EQ("", user.refusal("SELECT 1 FROM waybill." + table)) << table;
    EXPECT_EQ(denied, user.refusal("INSERT INTO waybill." + table + " DEFAULT VALUES")) << table;
    EXPECT_EQ(denied, user.refusal("DELETE FROM waybill." + table)) << table;
    EXPECT_EQ(denied, user.refusal("TRUNCATE waybill." + table)) << table;
  }
  EXPECT_EQ(denied, user.refusal("UPDATE waybill.lease SET term = 1"));
  EXPECT_EQ(denied, user.refusal("UPDATE waybill.identity SET one = true")) << "by its xmin anchor tells a dump";
  EXPECT_EQ(denied, user.refusal("SELECT FROM waybill.identity FOR KEY SHARE"));
  EXPECT_EQ(denied, user.refusal("SELECT waybill.enqueue('t', '1')"));
  EXPECT_EQ(denied, user.refusal("SELECT nextval('waybill.event_seq_seq')"));
}

TEST_F(RightsTest, Security14_AStrangerMayNothing) {
  app("DO $$ BEGIN CREATE USER stranger; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
  Sql user(server.url(app("SELECT current_database()"), "stranger"));
  EXPECT_EQ(denied, user.refusal("SELECT 1 FROM waybill.event"));
  EXPECT_EQ(denied, user.refusal("SELECT waybill.enqueue('t', '1')"));
  EXPECT_EQ(denied, user.refusal("INSERT INTO waybill.event (topic, payload) VALUES ('t', '1')"));
  EXPECT_EQ(denied, user.refusal("BEGIN; LOCK TABLE waybill.outbox IN ACCESS SHARE MODE"));
}

// A function that runs with its owner's rights finds everything by its full name, and is nobody's unless granted.
TEST_F(RightsTest, Security18_FunctionsWithTheirOwnersRightsArePinnedAndNotPublic) {
  const auto definers =
      app.column("SELECT proname FROM pg_proc WHERE pronamespace = 'waybill'::regnamespace AND prosecdef ORDER BY 1");
  EXPECT_THAT(definers, testing::IsSupersetOf({"admit", "enqueue", "first_id"}));
  EXPECT_THAT(app.column("SELECT proname FROM pg_proc WHERE pronamespace = 'waybill'::regnamespace AND prosecdef AND "
                         "proname <> 'admit' AND proconfig IS DISTINCT FROM ARRAY['search_path=pg_catalog, pg_temp']"),
              testing::IsEmpty());
  EXPECT_THAT(app.column("SELECT proname FROM pg_proc p WHERE pronamespace = 'waybill'::regnamespace AND prosecdef AND "
                         "has_function_privilege('public', p.oid, 'EXECUTE')"),
              testing::IsEmpty());
}

// admit() is not pinned, since that costs as much again as all it does: it names everything in full. So nothing changes
// for an application whose search path begins with a schema in which operators, functions and types are others.
TEST_F(RightsTest, AnApplicationsOwnFunctionsAreNotAskedWhetherAnEventIsGood) {
  app(R"(
    CREATE SCHEMA mine;
    DO $$
    DECLARE
      f record;
      body text := $b$BEGIN RAISE 'shadowed'; END$b$;
      types regtype[] := '{int2,int4,int8,text,bool,uuid,numeric,float8,bytea}';
    BEGIN
      FOR f IN SELECT o.oid, o.oprname, o.oprleft::regtype AS l, o.oprright::regtype AS r, o.oprresult::regtype AS result
               FROM pg_operator o
               WHERE o.oprkind = 'b' AND o.oprname IN ('=', '<>', '<', '>', '<=', '>=', '&', '%', '||', '*', '/')
                 AND o.oprleft = ANY (types) AND o.oprright = ANY (types) LOOP
        EXECUTE format('CREATE FUNCTION mine.wrong_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L',
                       f.oid, f.l, f.r, f.result, body);
        EXECUTE format('CREATE OPERATOR mine.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = mine.wrong_%s)',
                       f.oprname, f.l, f.r, f.oid);
      END LOOP;
      FOR f IN SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments, p.prorettype::regtype AS result
               FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname IN (
                 'current_setting', 'octet_length', 'hashtextextended', 'uuid_hash_extended', 'json_typeof', 'textcat', 'encode', 'set_bit',
                 'uuid_send', 'gen_random_uuid', 'int8send', 'clock_timestamp') LOOP
        EXECUTE format('CREATE FUNCTION mine.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L',
                       f.proname, f.arguments, f.result, body);
      END LOOP;
    END $$;
    CREATE DOMAIN mine.text AS pg_catalog.text CHECK (false);
    CREATE DOMAIN mine.uuid AS pg_catalog.uuid CHECK (false);
    CREATE DOMAIN mine.json AS pg_catalog.json CHECK (false);
    GRANT USAGE ON SCHEMA mine TO PUBLIC)");
  Sql user(user_with("enqueue"));
  user("SET search_path = mine, pg_catalog");
  EXPECT_EQ("P0001", user.refusal("SELECT 1 = 1")) << "the trap is set";
  const std::string insert =
      "INSERT INTO waybill.event (topic, payload, metadata, headers, dedup_key, aggregate_type, aggregate_id) "
      "VALUES ('t', '1', '{}', '{}', 'once', 'a', 'b')";
  EXPECT_EQ("", user.refusal(insert));
  EXPECT_EQ("", user.refusal(insert));
  EXPECT_EQ("", user.refusal("INSERT INTO waybill.event (topic, payload, key) VALUES ('t', '1', 'k')"));
  EXPECT_EQ("", user.refusal("INSERT INTO waybill.event (topic, payload_bytes) VALUES ('t', '1')"));
  EXPECT_EQ("", user.refusal("SELECT waybill.enqueue('t', '1', key => 'k', serialize => true)"));
  put("a");
  EXPECT_EQ("5", app("SELECT count(*) FROM waybill.event WHERE shard = waybill.shard_of(tenant, key, aggregate_type, "
                     "aggregate_id, id)"));
  for (const char* bad :
       {"(topic, payload) VALUES ('', '1')", "(topic) VALUES ('t')",
        "(topic, payload, metadata) VALUES ('t', '1', '[]')", "(topic, payload, headers) VALUES ('t', '1', '[]')",
        "(topic, payload, attempts_max) VALUES ('t', '1', 0)", "(topic, payload, aggregate_id) VALUES ('t', '1', 'a')"})
    EXPECT_EQ("23514", user.refusal(std::string("INSERT INTO waybill.event ") + bad)) << bad;
}

TEST_F(RightsTest, ADedupKeyIsUsedUpByAnEventAlone) {
  Sql user(user_with("enqueue"));
  EXPECT_EQ(denied, user.refusal("INSERT INTO waybill.dedup (tenant, key, id) VALUES ('a', 'b', gen_random_uuid())"));
  user("CREATE TEMP TABLE mine (tenant text, dedup_key text, id uuid)");
  EXPECT_EQ(denied, user.refusal("CREATE TRIGGER admit BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION "
                                 "waybill.admit()"));
}

TEST_F(RightsTest, Security18_ATemporaryTableOfTheSameNameIsNotWrittenTo) {
  Sql user(user_with("enqueue"));
  user("CREATE TEMP TABLE event (LIKE pg_class); CREATE TEMP TABLE dedup (tenant text, key text, id uuid)");
  user("SET search_path = pg_temp, waybill, pg_catalog");
  user("SELECT waybill.enqueue('t', '1', dedup_key => 'x')");
  EXPECT_EQ("0", user("SELECT count(*) FROM pg_temp.dedup"));
  EXPECT_EQ("1", app("SELECT count(*) FROM waybill.event"));
}

TEST_F(RightsTest, AUserWithoutTheRoleIsToldWhichOne) {
  const auto users = postgres_store({.url = user_with("reader")});
  try {
    Reader reader(*users);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_config, error.remedy());
    EXPECT_THAT(error.what(), testing::HasSubstr("waybill_relay"));
  }
}

}  // namespace
}  // namespace waybill
