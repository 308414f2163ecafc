// Projections on PostgreSQL: transactions that end late, crashes, restores, roles, and what is in a rebuild's way.

#include <atomic>
#include <future>
#include <random>

#include "waybill/enqueue.h"

#include "postgres/postgres_fixture.h"
#include "service/tally.h"

namespace waybill {
namespace {

using testing::HasSubstr;

class ProjectionTest : public PostgresTest {
 protected:
  explicit ProjectionTest(TmpPostgres& the_server = TmpPostgres::shared()) : PostgresTest(16, the_server) {}

  Projector projector(Projection projection, const std::string& where = "", Log log = {}) {
    return {std::move(projection), [at = where.empty() ? url : where] { return waybill::connect(at); }, std::move(log)};
  }
  // A user with these roles.
  std::string user(const std::string& name, const std::string& roles) {
    app("DO $$ BEGIN CREATE USER " + name + "; EXCEPTION WHEN duplicate_object THEN NULL; END $$; GRANT " + roles +
        " TO " + name + "; GRANT CREATE ON DATABASE " + app("SELECT current_database()") + " TO " + name);
    return server.url(app("SELECT current_database()"), name);
  }

  std::unique_ptr<Connection> db = waybill::connect(url);
  const StreamId order{.type = "order", .id = "o-1"};
  const StreamId room{.type = "room", .id = "r-1"};
};

// --- Transactions that end late

TEST_F(ProjectionTest, AnEventThatIsCommittedLateIsNotPassedBy) {
  const auto late = waybill::connect(url);
  Projector one = projector(tally());
  for (int i = 0; i < 3; ++i) {
    Transaction transaction(*late);
    append_counted(*late, order, 2);
    append_counted(*db, room, 3);
    EXPECT_EQ(3, one.catch_up());
    EXPECT_EQ(0, one.catch_up());
    transaction.commit();
    EXPECT_EQ(2, one.catch_up());
  }
  EXPECT_EQ("", difference(*db));
}

TEST_F(ProjectionTest, AlsoIfItIsCommittedInTheMiddleOfAWindow) {
  const auto early = waybill::connect(url);
  const auto late = waybill::connect(url);
  Projector one = projector(tally());
  one.catch_up();
  Transaction before(*early);  // open when the window begins, and visible at its end
  append_counted(*early, {.type = "early", .id = "e"}, 400);
  append_counted(*db, room, 1);
  one.catch_up();
  Transaction after(*late);  // open at its end, too
  append_counted(*late, {.type = "late", .id = "l"}, 10);
  append_counted(*db, room, 600);
  append_counted(*db, order, 600);
  before.commit();
  int batches = 0;
  Projector stopping = projector(tally([&](const RecordedEvent& event, Connection&) {
    EXPECT_NE("late", event.stream.type);
    if (++batches == 200) throw std::runtime_error("enough");
  }));
  EXPECT_THROW(stopping.catch_up(), Error);
  after.commit();
  EXPECT_LT(1'000, one.catch_up());
  EXPECT_EQ("", difference(*db));
  EXPECT_EQ(1'611, one.progress().handled);
}

// The second of the stream has the lower number.
TEST_F(ProjectionTest, TheOrderIsThatOfVersionsNotOfTransactionNumbers) {
  const auto elder = waybill::connect(url);
  Transaction transaction(*elder);
  elder->run("SELECT pg_current_xact_id()");
  append_counted(*db, order, 1);
  append_counted(*elder, order, 1, Expected::version(1));
  transaction.commit();
  EXPECT_EQ("t", app("SELECT (SELECT xid FROM waybill.stream_event WHERE version = 1) > (SELECT xid FROM "
                     "waybill.stream_event WHERE version = 2)"));
  EXPECT_EQ(2, projector(tally()).catch_up());
  EXPECT_EQ("", difference(*db));
}

TEST_F(ProjectionTest, AmongManyWritersNothingIsLostDoubledOrOutOfOrder) {
  std::atomic<bool> done = false;
  std::atomic<std::int64_t> appended = 0;
  Projector one = projector(tally());
  one.catch_up();
  {
    std::vector<std::jthread> writers;
    for (unsigned seed = 1; seed <= 4; ++seed)
      writers.emplace_back([&, seed] {
        std::mt19937 random(seed);
        const auto line = waybill::connect(url);
        while (!done) {
          const bool rolls_back = random() % 8 == 0;
          const bool dawdles = random() % 8 == 0;
          const int events = random() % 30 == 0 ? 100 : 1 + static_cast<int>(random() % 3);
          try {
            Transaction transaction(*line);
            if (dawdles) line->run("SELECT pg_current_xact_id(), pg_sleep(0.005)");
            append_counted(*line, {.type = "order", .id = std::to_string(random() % 10)}, events);
            if (dawdles) line->run("SELECT pg_sleep(0.01)");
            if (rolls_back) continue;
            transaction.commit();
            appended += events;
          } catch (const Collision&) {
          }
        }
      });
    for (const auto end = std::chrono::steady_clock::now() + 1s; std::chrono::steady_clock::now() < end;)
      one.catch_up();
    done = true;
  }
  one.catch_up();
  EXPECT_EQ("", difference(*db));
  EXPECT_EQ(appended, one.progress().handled);
}

// --- Crashes and copies

class ProjectionCrashTest : public ProjectionTest {
 protected:
  ProjectionCrashTest() : ProjectionTest(durable()) { server.stop_wal_writer(); }
  static TmpPostgres& durable() {
    static TmpPostgres server(true, {"wal_buffers=32MB", "autovacuum=off"});
    return server;
  }
};

// Events, state and checkpoint are in one log, in this order: a crash leaves a beginning of it.
TEST_F(ProjectionCrashTest, StateAndEventsAreLostTogetherOrNotAtAll) {
  int lost = 0;
  for (const char* commits : {"on", "off", "off"}) {
    app("ALTER DATABASE " + app("SELECT current_database()") + " SET synchronous_commit = off");
    db = waybill::connect(url);
    Projector one = projector(tally([&](const RecordedEvent&, Connection& line) {
      line.run(std::string("SET LOCAL synchronous_commit = ") + commits);
    }));
    for (int i = 0; i < 10; ++i) {
      append_counted(*db, order, 3);
      if (i == 7) one.catch_up();
    }
    const auto before = app.number("SELECT count(*) FROM waybill.stream_event");
    server.crash();
    server.start();
    server.stop_wal_writer();
    app = connect();
    db = waybill::connect(url);
    lost += static_cast<int>(before - app.number("SELECT count(*) FROM waybill.stream_event"));
    append_counted(*db, order, 3);  // With numbers that were given out before.
    projector(tally()).catch_up();
    EXPECT_EQ("", difference(*db)) << commits;
  }
  EXPECT_GT(lost, 0) << "a crash that undoes nothing shows nothing";
}

// What a standby has is a beginning of what its primary had.
TEST_F(ProjectionTest, APromotedStandbyThatLostTheTailGoesOnWithWhatItHas) {
  TmpPostgres primary;
  const std::string here = primary.fresh_database();
  postgres_store({.url = here})->schema()->migrate();
  auto line = waybill::connect(here);
  append_counted(*line, order, 30);
  projector(tally(), here).catch_up();
  TmpPostgres standby(TmpPostgres::Standby{primary});
  standby.start();
  const std::string there_url = standby.url(here.substr(here.rfind('/') + 1));
  Sql there(there_url);
  const std::string upto = line->run("SELECT pg_current_wal_lsn()").text(0, 0);
  ASSERT_TRUE(eventually([&] { return there("SELECT pg_last_wal_replay_lsn() >= '" + upto + "'") == "t"; }, 30s));
  there("ALTER SYSTEM SET primary_conninfo = ''");
  there("SELECT pg_reload_conf()");
  ASSERT_TRUE(eventually([&] { return there.number("SELECT count(*) FROM pg_stat_wal_receiver") == 0; }, 30s));
  append_counted(*line, order, 20);
  projector(tally(), here).catch_up();
  primary.crash();
  there("SELECT pg_promote()");
  const auto promoted = waybill::connect(there_url);
  append_counted(*promoted, order, 7);
  EXPECT_EQ(7, projector(tally(), there_url).catch_up());
  EXPECT_EQ("", difference(*promoted));
}

TEST_F(ProjectionTest, ADumpOnAYoungerServerIsRefusedAndAnchored) {
  app.burn(30'000);
  append_counted(*db, order, 40);
  const auto late = waybill::connect(url);
  Transaction open(*late);
  append_counted(*late, room, 3);
  append_counted(*db, order, 40);
  projector(tally()).catch_up();
  open.commit();
  append_counted(*db, order, 5);
  Projection second = tally();  // In the middle of nothing: it has seen less than the first.
  second.name = "second";
  second.stream_type = "order";
  projector(second).catch_up();
  append_counted(*db, order, 600);
  Projection third = tally([](const RecordedEvent& event, Connection&) {  // In the middle of a window.
    if (event.version > 300) throw std::runtime_error("enough");
  });
  third.name = "third";
  EXPECT_THROW(projector(third).catch_up(), Error);
  EXPECT_EQ("t", app("SELECT walking IS NOT NULL FROM waybill.projection WHERE name = 'third'"));

  TmpPostgres young;
  const std::string copy = young.fresh_database();
  run_command({"sh", "-c",
               "pg_dump --no-privileges '" + url + "' | psql -q -v ON_ERROR_STOP=1 --single-transaction -d '" + copy +
                   "' >/dev/null"},
              "postgres");
  const auto there = waybill::connect(copy);
  append_counted(*there, order, 2);
  EXPECT_THAT(failure([&] { projector(tally(), copy).catch_up(); }), HasSubstr("'waybill anchor --dry-run'"));
  EXPECT_THAT(failure([&] { projector(tally(), copy).rebuild(); }), HasSubstr("'waybill anchor --dry-run'"));
  there->run("SELECT setval('waybill.stream_event_position_seq', 1)");  // As one who copies rows alone leaves it.
  EXPECT_TRUE(postgres_store({.url = copy})->upkeep()->anchor({.id = EventId::make()}, false).needed);
  EXPECT_EQ(3 + 5 + 600 + 2, projector(tally(), copy).catch_up());
  EXPECT_EQ("", difference(*there));
  third = tally();
  third.name = "third";
  projector(third, copy).catch_up();
  EXPECT_EQ("690", Sql(copy)("SELECT sum(events) FROM third.tally_stream"));
  EXPECT_EQ("0", Sql(copy)("SELECT sum(disorder) FROM third.tally_stream"));
  EXPECT_EQ(602, projector(second, copy).catch_up());
  append_counted(*there, room, 1);
  projector(tally(), copy).rebuild();
  EXPECT_EQ("", difference(*there));
}

// --- Roles

TEST_F(ProjectionTest, WhoSeesOneTenantOnlyIsRefused) {
  append_counted(*db, order, 1);
  const std::string service = user("projection_service", "waybill_service");
  EXPECT_THAT(failure([&] { projector(tally(), service).catch_up(); }),
              HasSubstr("GRANT waybill_reader TO projection_service, or give the projection a tenant"));
  Projection one = tally();
  one.tenant = "default";
  EXPECT_EQ(1, projector(one, service).catch_up());
  append_counted(*db, {.type = "order", .id = "o-1", .tenant = "north"}, 2);
  append_counted(*db, order, 1);
  EXPECT_EQ(1, projector(one, service).catch_up());
  projector(one, service).rebuild();
  EXPECT_EQ("", difference(*db, "tenant = 'default'"));
  EXPECT_EQ(0, projector(one, service).progress().behind);
}

TEST_F(ProjectionTest, AReaderWhoMayKeepACheckpointSeesAll) {
  append_counted(*db, order, 1);
  append_counted(*db, {.type = "order", .id = "o-1", .tenant = "north"}, 2);
  const std::string both = user("projection_both", "waybill_service, waybill_reader");
  Projector one = projector(tally(), both);
  EXPECT_EQ(3, one.catch_up());
  one.rebuild();
  EXPECT_EQ("", difference(*db));
}

// Not even one who may: the tables would be his, and whoever keeps the projection would be locked out.
TEST_F(ProjectionTest, OneWhoDoesNotOwnItDoesNotRebuildIt) {
  append_counted(*db, order, 1);
  const std::string keeper = user("projection_keeper", "waybill_service, waybill_reader");
  projector(tally(), keeper).catch_up();
  const std::string other = user("projection_other", "waybill_service, waybill_reader");
  for (const std::string& who : {url, other})
    EXPECT_THAT(failure([&] { projector(tally(), who).rebuild(); }),
                HasSubstr("its schema is projection_keeper's, whose the new tables must be"));
  projector(tally(), keeper).rebuild();
  append_counted(*db, order, 1);
  EXPECT_EQ(1, projector(tally(), keeper).catch_up());
}

// --- What is in a rebuild's way

TEST_F(ProjectionTest, WhatOthersHaveMadeOfItsTablesIsNotTakenAway) {
  append_counted(*db, order, 3);
  Projector one = projector(tally());
  one.catch_up();
  for (const auto& [make, drop, name] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"CREATE VIEW public.busy AS SELECT * FROM tally.tally_stream", "DROP VIEW public.busy", "view public.busy"},
           {"CREATE MATERIALIZED VIEW public.busy AS SELECT * FROM tally.tally_stream",
            "DROP MATERIALIZED VIEW public.busy", "materialized view public.busy"},
           {"CREATE TABLE public.note (a text, b text, c text, FOREIGN KEY (a, b, c) REFERENCES tally.tally_stream)",
            "DROP TABLE public.note", "constraint note_a_b_c_fkey on public.note"},
           {"CREATE FUNCTION public.f(tally.tally_stream) RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "DROP FUNCTION public.f", "function public.f"},
           {"CREATE PUBLICATION p FOR TABLE tally.tally_stream", "DROP PUBLICATION p", "publication"}}) {
    app(make);
    const std::string why = failure([&] { one.rebuild(); });
    EXPECT_THAT(why, HasSubstr(name));
    EXPECT_THAT(why, HasSubstr("or make it in the projection's ddl"));
    EXPECT_EQ("", difference(*db));
    app(drop);
  }
  one.rebuild();
  EXPECT_EQ("", difference(*db));
}

TEST_F(ProjectionTest, WhatItsDdlHasMadeOfItsTablesIsMadeAnew) {
  Projection rich = tally();
  rich.ddl +=
      "; CREATE INDEX ON tally_stream (last); CREATE VIEW busy AS SELECT * FROM tally_stream WHERE events > 1; "
      "CREATE "
      "TYPE mood AS ENUM ('good'); CREATE TABLE child (n serial, m mood, a text, b text, c text, FOREIGN KEY (a, b, c) "
      "REFERENCES tally_stream); CREATE "
      "FUNCTION f() "
      "RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER t BEFORE INSERT ON tally_stream FOR "
      "EACH "
      "ROW EXECUTE FUNCTION f()";
  append_counted(*db, order, 3);
  Projector one = projector(rich);
  for (int i = 0; i < 3; ++i) {
    one.rebuild();
    EXPECT_EQ("1", app("SELECT count(*) FROM tally.busy"));
    EXPECT_EQ("0", app("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'tally\\_\\_%'"));
  }
}

// In a schema whose name must be quoted, too.
TEST_F(ProjectionTest, WhateverItsDdlHasMadeInItsSchemaIsItsOwn) {
  Projection rich = tally();
  rich.name = "user";
  rich.ddl +=
      "; CREATE TEXT SEARCH CONFIGURATION words (COPY = pg_catalog.simple); CREATE COLLATION plain (locale = 'C'); "
      "CREATE FUNCTION mix(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1'; CREATE FUNCTION same(int, int) "
      "RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 = $2'; CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, "
      "FUNCTION = same, COMMUTATOR = ===); CREATE OPERATOR CLASS mixed FOR TYPE int USING hash AS OPERATOR 1 ===, "
      "FUNCTION 1 mix(int); CREATE DOMAIN small AS int CHECK (same(VALUE, VALUE)); CREATE TABLE note (n int DEFAULT "
      "mix(1), s small, t text COLLATE plain); CREATE INDEX ON note USING hash (n mixed); CREATE INDEX ON note USING "
      "gin (to_tsvector('words', t)); ALTER TABLE note ENABLE ROW LEVEL SECURITY; CREATE POLICY all_of_it ON note "
      "USING (same(n, n)); CREATE RULE quiet AS ON DELETE TO note WHERE same(old.n, 1) DO INSTEAD NOTHING";
  append_counted(*db, order, 3);
  Projector one = projector(rich);
  for (int i = 0; i < 2; ++i) one.rebuild();
  EXPECT_EQ("3", app("SELECT sum(events) FROM \"user\".tally_stream"));
  EXPECT_EQ("0", app("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'user\\_\\_%'"));
  app("CREATE TABLE public.note (t text COLLATE \"user\".plain)");
  EXPECT_THAT(failure([&] { one.rebuild(); }), HasSubstr("depend table"));
}

TEST_F(ProjectionTest, WhatOthersWereGrantedIsCarriedOver) {
  append_counted(*db, order, 3);
  Projector one = projector(tally());
  one.catch_up();
  const std::string web = user("projection_web", "waybill_enqueue");
  app("GRANT USAGE ON SCHEMA tally TO projection_web; GRANT SELECT, UPDATE ON tally.tally_stream TO PUBLIC");
  one.rebuild();
  EXPECT_EQ("3", Sql(web)("SELECT sum(events) FROM tally.tally_stream"));
  EXPECT_EQ("", Sql(web).refusal("UPDATE tally.tally_stream SET events = events"));
  EXPECT_EQ("42501", Sql(web).refusal("DELETE FROM tally.tally_stream"));
  app("REVOKE ALL ON tally.tally_stream FROM PUBLIC; GRANT SELECT (events, \"type\") ON tally.tally_stream TO "
      "projection_web");
  one.rebuild();
  EXPECT_EQ("3", Sql(web)("SELECT sum(events) FROM tally.tally_stream WHERE type = 'order'"));
  EXPECT_EQ("42501", Sql(web).refusal("SELECT id FROM tally.tally_stream"));
}

TEST_F(ProjectionTest, SchemasOfOthersAreLeftAlone) {
  app("CREATE SCHEMA tally");
  for (const std::string own :
       {"TABLE tally.own (n int)", "FUNCTION tally.own() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "TYPE tally.own AS ENUM ('a')", "DOMAIN tally.own AS int"}) {
    app("CREATE " + own);
    EXPECT_THAT(failure([&] { projector(tally()).catch_up(); }), HasSubstr("has what is not the projection's")) << own;
    app("DROP " + own.substr(0, own.find(' ')) + " tally.own");
  }
  Projector one = projector(tally());
  EXPECT_EQ(0, one.catch_up()) << "an empty schema will do";
  for (const char* name : {"tally__shadow", "tally__old"}) {
    app(std::string("CREATE SCHEMA ") + name + "; CREATE TABLE " + name + ".own (n int)");
    EXPECT_THAT(failure([&] { one.rebuild(); }), HasSubstr(std::string("the schema '") + name + "' is in its way"));
    app(std::string("DROP SCHEMA ") + name + " CASCADE");
  }
  one.rebuild();
}

TEST_F(ProjectionTest, TablesThatACrashEmptiesAreRefused) {
  Projection unlogged = tally();
  unlogged.ddl += "; CREATE UNLOGGED TABLE fast (n int)";
  EXPECT_THAT(failure([&] { projector(unlogged).catch_up(); }), HasSubstr("must not be UNLOGGED"));
}

TEST_F(ProjectionTest, ADdlThatWasInAnothersWayIsBegunAgain) {
  app("CREATE SEQUENCE public.tries");
  Projection unlucky = tally();
  unlucky.ddl += "; DO $$ BEGIN IF nextval('public.tries') < 3 THEN RAISE deadlock_detected; END IF; END $$";
  EXPECT_EQ(0, projector(unlucky).catch_up());
  EXPECT_EQ("3", app("SELECT last_value FROM public.tries"));
}

TEST_F(ProjectionTest, OfTwoRebuildsOneIsRefused) {
  append_counted(*db, order, 3);
  Projector one = projector(tally());
  one.catch_up();
  std::string why;
  bool tried = false;
  one.rebuild([&](std::int64_t, std::int64_t) {
    if (std::exchange(tried, true)) return;
    why = failure([&] { projector(tally()).rebuild(); });
  });
  EXPECT_THAT(why, HasSubstr("another rebuild of it is under way"));
  EXPECT_EQ("", difference(*db));
}

// One who reads for long keeps the old tables, and neither waits nor is waited for.
TEST_F(ProjectionTest, AReaderOfTheOldTablesHoldsNobodyUp) {
  append_counted(*db, order, 3);
  std::atomic<int> warnings = 0;
  Projector one = projector(tally(), "", Log([&](LogLevel level, std::string_view, std::span<const LogField>) {
                              if (level == LogLevel::warning) ++warnings;
                            }));
  one.catch_up();
  Sql reader = connect();
  reader("BEGIN; SELECT sum(events) FROM tally.tally_stream");
  one.rebuild();
  EXPECT_EQ(1, warnings);
  EXPECT_EQ("3", reader("SELECT sum(events) FROM tally.tally_stream")) << "the new ones";
  EXPECT_EQ("1", app("SELECT count(*) FROM pg_namespace WHERE nspname = 'tally__old'"));
  EXPECT_EQ("", difference(*db));
  reader("COMMIT");
  one.rebuild();
  EXPECT_EQ("0", app("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'tally\\_\\_%'"));
  EXPECT_EQ(1, warnings);
}

// --- How it reads

// Keeps what is sent, to be asked about afterwards.
class Listening final : public Connection {
 public:
  struct Sent {
    std::string sql{};
    std::vector<Parameter> parameters{};
    std::size_t rows = 0;
  };
  Listening(std::unique_ptr<Connection> line, std::vector<Sent>& sent) : line_(std::move(line)), sent_(sent) {}
  Dialect dialect() const override { return line_->dialect(); }
  Rows execute(std::string_view sql, std::span<const Parameter> parameters) override {
    Rows rows = line_->execute(sql, parameters);
    sent_.push_back(
        {.sql = std::string(sql), .parameters = {parameters.begin(), parameters.end()}, .rows = rows.size()});
    return rows;
  }
  void script(const std::string& sql) override { line_->script(sql); }
  bool in_transaction() const override { return line_->in_transaction(); }
  void commit() override { line_->commit(); }
  bool usable() const override { return line_->usable(); }
  void reopen() override { line_->reopen(); }

 private:
  std::unique_ptr<Connection> line_;
  std::vector<Sent>& sent_;
};

// Those of a transaction that ended late, too. 34 of them are 16 MiB.
TEST_F(ProjectionTest, OfLargeEventsFewAreReadAtOnce) {
  Event large = to_event(Counted{});
  large.payload = '"' + std::string(500'000, 'x') + '"';
  large.id.reset();
  const std::vector<Event> some(10, large);
  std::vector<Listening::Sent> sent;
  Projector one(tally(), [&] { return std::make_unique<Listening>(waybill::connect(url), sent); });
  const auto late = waybill::connect(url);
  Transaction open(*late);
  for (int i = 0; i < 6; ++i) EventStore().append(*late, {.type = "late", .id = "l"}, Expected::any(), some);
  append_counted(*db, order, 1);
  EXPECT_EQ(1, one.catch_up());
  for (int i = 0; i < 6; ++i) EventStore().append(*db, i % 2 == 0 ? order : room, Expected::any(), some);
  open.commit();
  EXPECT_EQ(120, one.catch_up());
  EXPECT_EQ(0, one.catch_up());
  EXPECT_EQ("", difference(*db));
  for (const auto& [sql, parameters, rows] : sent) EXPECT_GE(34U, rows) << sql;
  Projector(tally(), [&] { return waybill::connect(url); }).rebuild();
  EXPECT_EQ("", difference(*db));
}

// On statistics of when the store was nearly empty, and with plenty that is settled.
TEST_F(ProjectionTest, TheStoreIsReadByItsIndexes) {
  const auto fill = [&](int count) {
    app("INSERT INTO waybill.stream_event (tenant, aggregate_type, aggregate_id, version, id, topic, type, payload, "
        "occurred_at) SELECT 'default', 'order', gen_random_uuid()::text, 1, gen_random_uuid(), 't', 'counted', '{}', "
        "now() FROM generate_series(1, " +
        std::to_string(count) + ")");
  };
  fill(100);
  app("ANALYZE waybill.stream_event; ALTER TABLE waybill.stream_event SET (autovacuum_enabled = off)");
  fill(60'000);
  Projection quiet = tally();
  quiet.handlers.ignore_others();
  quiet.stream_type = "room";
  std::vector<Listening::Sent> sent;
  Projector one(quiet, [&] { return std::make_unique<Listening>(waybill::connect(url), sent); });
  one.catch_up();
  const auto late = waybill::connect(url);
  Transaction open(*late);
  append_counted(*late, {.type = "room", .id = "late"}, 600);
  append_counted(*db, room, 1);
  one.catch_up();
  open.commit();
  append_counted(*db, room, 600);
  one.catch_up();
  one.progress();
  std::string slow;
  int read = 0;
  for (const auto& [sql, parameters, rows] : sent) {
    if (sql.find("stream_event") == std::string::npos && sql.find("projection_progress") == std::string::npos) continue;
    ++read;
    Transaction explain(*db);
    const bool in_step =
        sql.find("$5::text[]") != std::string::npos || sql.find("pg_snapshot_xmax($1") != std::string::npos;
    if (in_step)
      db->script("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off");
    const Rows plan = db->execute("EXPLAIN " + sql, parameters);
    std::string text;
    for (std::size_t row = 0; row < plan.size(); ++row) text += plan.text(row, 0) + '\n';
    if (text.find("Seq Scan on stream_event") != std::string::npos ||
        (in_step && text.find("Bitmap") != std::string::npos))
      slow += sql + '\n' + text + '\n';
  }
  EXPECT_GT(read, 8);
  EXPECT_EQ("", slow);
}

}  // namespace
}  // namespace waybill
