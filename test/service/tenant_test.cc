// Tenants: whoever names one sees and writes its rows, and nobody forgets to.

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

TEST_F(TenantTest, AUnitOfWorkIsOfOneTenant) {
  const auto line = waybill::connect(service_url());
  AggregateRoot north({.type = "order", .id = "o", .tenant = "north"});
  UnitOfWork work(*line, {.transaction = {.tenant = "north"}});
  work.track(north);
  work.add({.topic = "t", .payload = "1", .tenant = "north"});
  work.commit();
  EXPECT_EQ("1", app("SELECT count(*) FROM waybill.event WHERE tenant = 'north'"));
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
