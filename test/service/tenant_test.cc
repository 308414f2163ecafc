// Tenants: whoever names one sees and writes its rows, and nobody forgets to.

#include "waybill/enqueue.h"
#include "waybill/idempotency.h"
#include "waybill/inbox.h"
#include "waybill/unit_of_work.h"

#include "postgres/postgres_fixture.h"
#include "support/tmp_pgbouncer.h"

namespace waybill {
namespace {

class TenantTest : public PostgresTest {
 protected:
  TenantTest() {
    app("DO $$ BEGIN CREATE USER only_service; EXCEPTION WHEN duplicate_object THEN NULL; END $$; "
        "GRANT waybill_service TO only_service");
  }

  std::string database() { return app("SELECT current_database()"); }
  std::string service_url() { return server.url(database(), "only_service"); }

  std::int64_t append(Connection& line, const std::string& tenant, const std::string& as) {
    Transaction transaction(line, {.tenant = as});
    const auto version = events.append(line, {.type = "order", .id = "o-7", .tenant = tenant}, Expected::any(),
                                       std::vector{make_event("a")});
    transaction.commit();
    return version;
  }
  // Which tenants' rows there are for one who names `as`.
  std::string seen(Connection& line, const std::string& as) {
    Transaction transaction(line, {.tenant = as});
    const Rows rows = line.run("SELECT coalesce(string_agg(DISTINCT tenant, ','), '') FROM waybill.stream_event");
    return rows.text(0, 0);
  }

  const EventStore events;
};

TEST_F(TenantTest, EachSeesAndWritesItsOwn) {
  const auto line = waybill::connect(service_url());
  EXPECT_EQ(1, append(*line, "north", "north"));
  EXPECT_EQ(1, append(*line, "south", "south"));
  EXPECT_EQ(2, append(*line, "south", "south"));
  EXPECT_EQ("north", seen(*line, "north"));
  EXPECT_EQ("south", seen(*line, "south"));
  EXPECT_EQ("", seen(*line, "")) << "who names none sees nothing";
  EXPECT_EQ("", seen(*line, "east"));
  EXPECT_EQ("north,south", app("SELECT string_agg(DISTINCT tenant, ',') FROM waybill.stream_event"));
}

TEST_F(TenantTest, AnothersRowsCannotBeWritten) {
  const auto line = waybill::connect(service_url());
  append(*line, "south", "south");
  for (const char* as : {"north", ""}) {
    EXPECT_THROW(append(*line, "south", as), Error) << as;
    Transaction transaction(*line, {.tenant = as});
    EXPECT_EQ(0, events.version(*line, {.type = "order", .id = "o-7", .tenant = "south"}));
    EXPECT_THROW(line->run("INSERT INTO waybill.inbox (tenant, consumer, message_id) VALUES ('south', 'c', '1')"),
                 Error);
  }
  for (const char* table : {"snapshot", "idempotency", "inbox", "stream_event"}) {
    Transaction transaction(*line, {.tenant = "north"});
    EXPECT_EQ(0, line->run(std::string("SELECT count(*) FROM waybill.") + table).integer(0, 0));
  }
  EXPECT_EQ("1", app("SELECT count(*) FROM waybill.stream_event"));
}

struct Placed {
  static constexpr std::string_view type_name = "order.placed";
  std::string to_json() const { return "{}"; }
};
class Order : public AggregateRoot {
 public:
  explicit Order(const std::string& tenant) : AggregateRoot({.type = "order", .id = "o", .tenant = tenant}) {
    record(Placed{});
  }
};

TEST_F(TenantTest, AUnitOfWorkIsOfOneTenant) {
  const auto line = waybill::connect(service_url());
  Order order("north");
  UnitOfWork work(*line, {.transaction = {.tenant = "north"}});
  work.track(order);
  work.add({.topic = "t", .payload = "1", .tenant = "north"});
  work.add({.topic = "t", .payload = "1"});
  enqueue(work.connection(), {.topic = "t", .payload = "1", .dedup_key = "once"}, {.serialize = true});
  enqueue(work.connection(), {.topic = "t", .payload = "1", .dedup_key = "once"});
  enqueue(work.connection(), std::vector{make_event("a"), make_event("b")}, {.serialize = true});
  work.connection().run("SELECT waybill.enqueue('t', '1', serialize => true)");
  work.connection().run("SELECT waybill.append('order', 'p', 0, 't', '1')");
  work.commit();
  EXPECT_EQ("north 8", app("SELECT string_agg(DISTINCT tenant, ',') || ' ' || count(*) FROM waybill.event"));
  EXPECT_EQ("8", app("SELECT count(*) FROM waybill.event WHERE shard = waybill.shard_of(tenant, key, aggregate_type, "
                     "aggregate_id, id)"));
  EXPECT_EQ("north", app("SELECT tenant FROM waybill.dedup"));

  for (const bool streams : {true, false}) {
    Order souths("south");
    UnitOfWork other(*line, {.streams = streams, .transaction = {.tenant = "north"}});
    other.track(souths);
    EXPECT_THROW(other.commit(), Error);
  }
  EXPECT_EQ("0", app("SELECT count(*) FROM waybill.event WHERE tenant <> 'north'"));
}

// The log, too: whose role it ever is. Otherwise one tenant could send to another's consumers, and ask for its keys.
TEST_F(TenantTest, AnothersEventsCannotBeWrittenNorAskedFor) {
  app("SELECT waybill.enqueue('t', '1', dedup_key => 'once', tenant => 'south')");
  Sql service(service_url());
  for (Sql* user : {&service, &app}) {
    for (const char* sql : {"INSERT INTO waybill.event (tenant, topic, payload) VALUES ('south', 't', '1')",
                            "SELECT waybill.enqueue('t', '1', tenant => 'south')",
                            "SELECT waybill.append('order', 'o-7', 0, 't', '1', tenant => 'south')",
                            "SELECT waybill.try_append('south', 'order', 'o-7', 0, ARRAY[gen_random_uuid()], "
                            "ARRAY['t'], payloads => ARRAY['1'::json])",
                            "SELECT waybill.first_id('south', 'once')"}) {
      (*user)("BEGIN; SET LOCAL waybill.tenant = 'north'");
      EXPECT_EQ("42501", user->refusal(sql)) << sql;
      (*user)("ROLLBACK");
    }
    (*user)("BEGIN; SET LOCAL waybill.tenant = 'north'");
    EXPECT_EQ("", (*user)("SELECT waybill.first_id('north', 'once')"));
    EXPECT_EQ("42501", user->refusal("SELECT waybill.try_append('default', 'order', 'o-7', 0, "
                                     "ARRAY[gen_random_uuid()], ARRAY['t'], payloads => ARRAY['1'::json])"))
        << "a stream is named in full";
    (*user)("ROLLBACK");
  }
  EXPECT_EQ("1", app("SELECT count(*) FROM waybill.event"));
  EXPECT_NE("", app("SELECT waybill.enqueue('t', '1', tenant => 'east')")) << "who names none may write for all";
}

// That the stream cannot be seen does not mean that there is none.
TEST_F(TenantTest, ToForgetTheTenantIsNoConflict) {
  const auto line = waybill::connect(service_url());
  for (int i = 0; i < 3; ++i) append(*line, "south", "south");
  for (const char* as : {"north", ""}) {
    for (const Expected expected : {Expected::none(), Expected::version(3), Expected::version(7), Expected::any()}) {
      Transaction transaction(*line, {.tenant = as});
      try {
        events.append(*line, {.type = "order", .id = "o-7", .tenant = "south"}, expected, std::vector{make_event("a")});
        FAIL();
      } catch (const Error& error) {
        EXPECT_EQ(Remedy::fix_config, error.remedy()) << as << ' ' << error.what();
      }
    }
  }
  EXPECT_EQ("3", app("SELECT count(*) FROM waybill.event"));
}

// A user of one tenant has it as his setting, and names none.
TEST_F(TenantTest, ATenantCanBeTheUsersOwn) {
  app("ALTER ROLE only_service IN DATABASE " + database() + " SET waybill.tenant = 'default'");
  const auto line = waybill::connect(service_url());
  EXPECT_EQ(1, append(*line, "default", ""));
  EXPECT_EQ("default", seen(*line, ""));
  EXPECT_EQ("2", Sql(service_url())("SELECT waybill.append('order', 'o-7', 1, 't', '1')"));
}

TEST_F(TenantTest, PeopleAndRelaysSeeAllTenants) {
  append(*waybill::connect(service_url()), "north", "north");
  append(*waybill::connect(service_url()), "south", "south");
  for (const char* role : {"relay", "operator", "reader"}) {
    const std::string user = std::string("all_") + role;
    app("DO $$ BEGIN CREATE USER " + user + "; EXCEPTION WHEN duplicate_object THEN NULL; END $$; GRANT waybill_" +
        role + " TO " + user);
    EXPECT_EQ("2", Sql(server.url(database(), user))("SELECT count(*) FROM waybill.stream_event")) << role;
  }
}

// The tables' owner need not be a superuser, who is above all policies.
TEST_F(TenantTest, TheOwnerSeesAllTenants) {
  append(*waybill::connect(service_url()), "north", "north");
  app("DO $$ BEGIN CREATE USER owning; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
  app("ALTER TABLE waybill.stream_event OWNER TO owning; GRANT USAGE ON SCHEMA waybill TO owning");
  EXPECT_EQ("1", Sql(server.url(database(), "owning"))("SELECT count(*) FROM waybill.stream_event"));
}

// The same message, the same key: to each tenant its own, on one and the same session of the server.
TEST_F(TenantTest, Row83_84_Security16_ThroughAPoolerOnOneSessionTenantsHaveTheirOwnInboxAndKeys) {
  TmpPgBouncer pooler(server.port(), "only_service", 1);
  const auto north = waybill::connect(pooler.url(database()));
  const auto south = waybill::connect(pooler.url(database()));
  const std::string session = "SELECT pg_backend_pid()";
  ASSERT_EQ(north->run(session).text(0, 0), south->run(session).text(0, 0));
  const Inbox inbox("billing");
  const IdempotencyKeys keys;
  const auto handle = [&](Connection& line, const std::string& as) {
    return inbox.once(line, "m-1", [](Connection&) {}, {.transaction = {.tenant = as}});
  };
  const auto ask = [&](Connection& line, const std::string& as) {
    return keys
        .once(line, {.key = "k", .fingerprint = "f-" + as, .tenant = as},
              [&](Connection&) { return StoredAnswer{.body = as}; })
        .answer.body;
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(i == 0, handle(*north, "north"));
    EXPECT_EQ(i == 0, handle(*south, "south"));
    EXPECT_EQ("north", ask(*north, "north"));
    EXPECT_EQ("south", ask(*south, "south"));
    EXPECT_THROW(handle(*north, ""), Error) << "who names none handles nothing";
    EXPECT_THROW(ask(*south, ""), Error);
    EXPECT_EQ("0", south
                       ->run("SELECT (SELECT count(*) FROM waybill.inbox) + (SELECT count(*) FROM "
                             "waybill.idempotency)")
                       .text(0, 0));
  }
  // Nor can one who has named himself write, or see, what is another's.
  Transaction transaction(*north, {.tenant = "north"});
  EXPECT_FALSE(keys.begin(*north, {.key = "k", .fingerprint = "f-south", .tenant = "south"})) << "he sees none";
  EXPECT_THROW(keys.end(*north, {.key = "k", .fingerprint = "f-south", .tenant = "south"}, {}), Error);
  transaction.rollback();
  Transaction second(*north, {.tenant = "north"});
  EXPECT_THROW(inbox.first_time(*north, "m-2", "south"), Error);
  EXPECT_EQ("north,south", app("SELECT string_agg(tenant, ',' ORDER BY tenant) FROM waybill.inbox"));
  EXPECT_EQ("north,south", app("SELECT string_agg(tenant, ',' ORDER BY tenant) FROM waybill.idempotency"));
}

// Two tenants take turns on the sessions of a pooler; none finds the other's name in it.
TEST_F(TenantTest, ThroughAPoolerNobodyInheritsATenant) {
  TmpPgBouncer pooler(server.port(), "only_service");
  const auto north = waybill::connect(pooler.url(database()));
  const auto south = waybill::connect(pooler.url(database()));
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(i, append(*north, "north", "north"));
    EXPECT_EQ("", seen(*south, ""));
    EXPECT_EQ(i, append(*south, "south", "south"));
    EXPECT_EQ("north", seen(*north, "north"));
    EXPECT_EQ("0", south->run("SELECT count(*) FROM waybill.stream_event").text(0, 0));
  }
}

}  // namespace
}  // namespace waybill
