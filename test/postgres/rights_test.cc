// Who may do what: three roles, and functions that nobody can turn against their owner.

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

TEST_F(RightsTest, EnqueueMayWriteTheContractsColumnsAndNothingElse) {
  Sql user(user_with("enqueue"));
  Event event = make_event("a");
  event.dedup_key = "once";
  event.metadata = "{}";
  const EventId id = enqueue(user.raw(), event, {.serialize = true});
  EXPECT_EQ(id, enqueue(user.raw(), event));
  EXPECT_EQ(id, enqueue(user.raw(), std::vector{event, make_event("b")}).at(0));
  EXPECT_EQ(36U, user("SELECT waybill.enqueue('t', '1', key => 'k', serialize => true)").size());
  EXPECT_EQ("", user.refusal("INSERT INTO waybill.event (topic, payload) VALUES ('t', '1')"));
  for (const char* column : {"seq", "xid", "slot", "shard", "octets", "created_at", "woke"})
    EXPECT_EQ(denied, user.refusal(std::string("INSERT INTO waybill.event (topic, payload, ") + column +
                                   ") VALUES ('t', '1', DEFAULT)"))
        << column;
  EXPECT_EQ(denied, user.refusal("INSERT INTO waybill.event_0 (topic, payload, slot) VALUES ('t', '1', 0)"));
  for (const char* table : {"event", "event_0", "dedup", "cursor", "lease", "relay", "destination", "identity"}) {
    EXPECT_EQ(denied, user.refusal(std::string("SELECT 1 FROM waybill.") + table)) << table;
    EXPECT_EQ(denied, user.refusal(std::string("DELETE FROM waybill.") + table)) << table;
  }
  EXPECT_EQ(denied, user.refusal("UPDATE waybill.event SET topic = 'u'"));
  EXPECT_EQ(denied, user.refusal("TRUNCATE waybill.event"));
}

TEST_F(RightsTest, RelayCanRunARelayAndCannotTouchEvents) {
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

TEST_F(RightsTest, RelayCanFollow) {
  put("a");
  const auto users = postgres_store({.url = user_with("relay")});
  EXPECT_EQ(1U, users->follow()->read("", 10).items.size());
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
  EXPECT_EQ(denied, user.refusal("SELECT waybill.enqueue('t', '1')"));
  EXPECT_EQ(denied, user.refusal("SELECT nextval('waybill.event_seq_seq')"));
}

TEST_F(RightsTest, AStrangerMayNothing) {
  app("DO $$ BEGIN CREATE USER stranger; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
  Sql user(server.url(app("SELECT current_database()"), "stranger"));
  EXPECT_EQ(denied, user.refusal("SELECT 1 FROM waybill.event"));
  EXPECT_EQ(denied, user.refusal("SELECT waybill.enqueue('t', '1')"));
  EXPECT_EQ(denied, user.refusal("INSERT INTO waybill.event (topic, payload) VALUES ('t', '1')"));
}

// A function that runs with its owner's rights finds everything by its full name, and is nobody's unless granted.
TEST_F(RightsTest, FunctionsWithTheirOwnersRightsArePinnedAndNotPublic) {
  const auto definers =
      app.column("SELECT proname FROM pg_proc WHERE pronamespace = 'waybill'::regnamespace AND prosecdef ORDER BY 1");
  EXPECT_THAT(definers, testing::IsSupersetOf({"enqueue", "first_id", "skip_duplicate"}));
  EXPECT_THAT(app.column("SELECT proname FROM pg_proc WHERE pronamespace = 'waybill'::regnamespace AND prosecdef AND "
                         "proconfig IS DISTINCT FROM ARRAY['search_path=pg_catalog, pg_temp']"),
              testing::IsEmpty());
  EXPECT_THAT(app.column("SELECT proname FROM pg_proc p WHERE pronamespace = 'waybill'::regnamespace AND prosecdef AND "
                         "has_function_privilege('public', p.oid, 'EXECUTE')"),
              testing::IsEmpty());
}

TEST_F(RightsTest, ATemporaryTableOfTheSameNameIsNotWrittenTo) {
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
