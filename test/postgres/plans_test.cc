// Every query of the engine has one plan that fits, whatever the statistics say: index scans on exactly two indexes, no
// sort of the backlog. A log of 300,000 events that was never analyzed; plans made before they were there, and after.

#include <set>

#include <nlohmann/json.hpp>

#include "postgres/postgres_fixture.h"
#include "store/postgres/database.h"

namespace waybill {
namespace {

using nlohmann::json;

// How the plan looks at the log, and what that cost.
struct Look {
  std::set<std::string> ways;              // "by_xid", "by_seq": an index scan; else what it is: "Seq Scan", …
  bool sorts_backlog = false;              // Is there a sort over what no limit bounds?
  std::int64_t rows = 0;                   // looked at, also in vain
  std::set<std::string> undelivered_ways;  // the same of undelivered events: indexes by their names
  std::int64_t undelivered_rows = 0;
  std::int64_t blocks = 0;  // of all tables and indexes, read or found in memory; also within functions
};

std::string way_of(const json& node) {
  const std::string type = node.at("Node Type");
  const std::string index = node.value("Index Name", "");
  if (!type.starts_with("Index")) return type;
  return index.ends_with("_xid_shard_seq_idx") ? "by_xid" : index.ends_with("_shard_seq_idx") ? "by_seq" : index;
}

void look(const json& node, bool unbounded_sort, Look& found) {
  const std::string type = node.at("Node Type");
  if (testing::Matches(testing::MatchesRegex("event_[0-7]"))(node.value("Relation Name", ""))) {
    found.ways.insert(way_of(node));
    found.sorts_backlog = found.sorts_backlog || unbounded_sort;
    found.rows +=
        (node.value("Actual Rows", 0) + node.value("Rows Removed by Filter", 0)) * node.value("Actual Loops", 0);
  }
  if (node.value("Relation Name", "") == "undelivered" && type != "ModifyTable") {
    found.undelivered_ways.insert(type.starts_with("Index") ? node.value("Index Name", "") : type);
    found.undelivered_rows +=
        (node.value("Actual Rows", 0) + node.value("Rows Removed by Filter", 0)) * node.value("Actual Loops", 0);
  }
  if (type == "Sort" || type == "Incremental Sort") unbounded_sort = true;
  if (type == "Limit" || type == "Aggregate") unbounded_sort = false;
  if (node.contains("Plans"))
    for (const json& child : node["Plans"]) look(child, unbounded_sort, found);
}

using Parameters = std::vector<std::string>;

// A connection on which the engine's queries are explained, under the settings with which it runs them.
class Explainer {
 public:
  explicit Explainer(const std::string& url) : connection_(url, "test") {}

  // As PgConnection::transact would run it.
  Look transact(const PgQuery& query, const Parameters& parameters) {
    const PgQuery explain = prepare(query, parameters);
    const PgStatement statement{&explain};
    return read(connection_.transact(std::span(&statement, 1)).at(0));
  }
  // As PgConnection::run would: at first with a plan for these parameters, later with one for all.
  Look run(const PgQuery& query, const Parameters& parameters) {
    const PgQuery explain = prepare(query, parameters);
    connection_.script(custom ? "SET plan_cache_mode = force_custom_plan" : "SET plan_cache_mode = force_generic_plan");
    Look found = read(connection_.run({&explain}));
    connection_.script("RESET plan_cache_mode");
    return found;
  }

 private:
  PgQuery prepare(const PgQuery& query, const Parameters& parameters) {
    const std::string name = "plan_" + query.name;
    if (prepared_.insert(name).second) connection_.script("PREPARE " + name + " AS " + query.sql);
    std::string values;
    for (const std::string& parameter : parameters)
      values += (values.empty() ? "" : ", ") + (parameter == "NULL" ? parameter : '\'' + parameter + '\'');
    return {"explain" + std::to_string(++count_),
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE " + name + (values.empty() ? "" : '(' + values + ')')};
  }
  Look read(const PgRows& rows) {
    const json plan = json::parse(rows.text(0, 0));
    last = plan.dump(1);
    Look found;
    const json& root = plan.at(0).at("Plan");
    look(root, false, found);
    found.blocks = root.value("Shared Hit Blocks", 0) + root.value("Shared Read Blocks", 0);
    milliseconds = plan.at(0).at("Execution Time");
    return found;
  }

  PgConnection connection_;
  std::set<std::string> prepared_;
  int count_ = 0;

 public:
  bool custom = false;      // Shall run() plan anew for each set of parameters?
  double milliseconds = 0;  // of the last
  std::string last;         // the last plan
};

class PlansTest : public testing::Test {
 protected:
  static constexpr int events = 300'000;
  static constexpr int busy = 3;   // a shard with very many events
  static constexpr int quiet = 5;  // one that has none

  struct World {
    TmpPostgres server{false, {"autovacuum=off"}};
    std::string url = server.fresh_database();
    PgQueries queries{"waybill"};
    std::unique_ptr<Explainer> early;  // has planned everything while the log was empty
    std::string settled, walking, base;
    std::string late;     // the number of a transaction that was open at `settled`
    std::string halfway;  // a snapshot in which half of the log is settled
    std::string middle, floor, ceiling;
    std::string id;
  };

  static World& world() {
    static World* const made = make_world().release();
    return *made;
  }

  static std::unique_ptr<World> make_world() {
    auto world = std::make_unique<World>();
    const auto store = postgres_store({.url = world->url});
    store->schema()->migrate();
    Reader reader(*store);
    Sql app(world->url);
    Sql late(world->url);
    late("BEGIN");
    enqueue(late.raw(), make_event("late", key_in(app, busy)));
    world->late = late("SELECT pg_current_xact_id()");
    app.burn(2);
    world->settled = app("SELECT pg_current_snapshot()");
    world->base = app("SELECT pg_snapshot_xmax('" + world->settled + "')");
    world->walking = world->settled;
    world->floor = world->middle = world->ceiling = "0";
    world->id = EventId::make().to_string();
    world->early = std::make_unique<Explainer>(world->url);
    ask_all(*world, *world->early);
    load(app);
    world->halfway = app("SELECT pg_current_snapshot()");
    world->middle = app("SELECT last_value FROM waybill.event_seq_seq");
    fail(app);
    load(app);
    late("COMMIT");
    world->walking = app("SELECT pg_current_snapshot()");
    world->ceiling = app("SELECT last_value FROM waybill.event_seq_seq");
    world->floor = "1";
    world->id = app("SELECT id FROM waybill.event WHERE shard = 3 ORDER BY seq DESC LIMIT 1");
    return world;
  }

  static std::string key_in(Sql& app, int shard) {
    return app(
        "SELECT k::text FROM generate_series(1, 1000) k WHERE waybill.shard_of('default', k::text, NULL, NULL, "
        "NULL) = " +
        std::to_string(shard) + " LIMIT 1");
  }

  // Half of it, by transactions of a thousand; a third of all in one shard, none in another.
  static void load(Sql& app) {
    app("DROP TABLE IF EXISTS keys; CREATE TABLE keys AS SELECT row_number() OVER () AS n, k::text AS key FROM "
        "generate_series(1, 1200) k WHERE "
        "waybill.shard_of('default', k::text, NULL, NULL, NULL) <> " +
        std::to_string(quiet));
    app("INSERT INTO keys SELECT 10000 + row_number() OVER (), '" + key_in(app, busy) +
        "' FROM generate_series(1, 500)");
    app("DO $$ BEGIN FOR i IN 1.." + std::to_string(events / 2000) +
        " LOOP INSERT INTO waybill.event (id, topic, payload, key) SELECT gen_random_uuid(), 't', '{\"n\":1}', k.key "
        "FROM keys k ORDER BY hashint8(k.n + i) LIMIT 1000; COMMIT; END LOOP; END $$");
  }

  // Everything once, so that it is planned.
  static void ask_all(World& world, Explainer& explainer) {
    probe(world, explainer, {quiet});
    probe(world, explainer, {quiet}, 1001, false);
    bounds(world, explainer);
    walk(world, explainer, 1000);
    news(world, explainer);
    beat(world, explainer);
    explainer.transact(world.queries.destinations, {});
    explainer.transact(world.queries.status, {"100"});
    explainer.transact(world.queries.place, {world.middle});
    explainer.transact(world.queries.story, {array(1, std::to_string(busy)), array(1, world.middle)});
    explainer.run(world.queries.payload, {std::to_string(busy), world.middle});
    list(world, explainer);
    find(world, explainer);
    fetch(world, explainer, blocked_key);
    fetch(world, explainer, 0);
    pass(world, explainer);
    for (const PgQuery* query : {&world.queries.blocked, &world.queries.delivered, &world.queries.bury})
      about_lease(world, explainer, *query);
    explainer.transact(world.queries.next_due, {"out", pg_array<int>(std::vector{busy})});
    undelivered_list(world, explainer);
    explainer.transact(world.queries.standings, {"100"});
    explainer.transact(world.queries.blocked_keys, {"out", "10", "100"});
  }

  static constexpr int blocked_key = 77;

  // A third of the log's half is undelivered: most of it behind one event of a key, some without a key, some dead.
  static void fail(Sql& app) {
    app("INSERT INTO waybill.undelivered (destination, shard, seq, slot, id, key, standing, blocks, attempts, crashes, "
        "sending, due, error) SELECT 'out', shard, seq, slot, id, CASE WHEN seq % 10 < 8 THEN 77 ELSE 0 END, CASE WHEN "
        "seq "
        "% 10 < 8 THEN 'blocked' WHEN seq % 10 = 8 THEN 'retrying' ELSE 'dead' END, seq % 10 < 8, 0, 0, 0, "
        "clock_timestamp() + (seq % 100 - 50) * interval '1 h', '' FROM waybill.event WHERE shard = " +
        std::to_string(busy));
  }
  static Look fetch(World& world, Explainer& explainer, int key) {
    return explainer.transact(world.queries.fetch, {"out", pg_array<int>(std::vector{busy}),
                                                    array(1, std::to_string(key)), array(1, "5000"), array(1, "100")});
  }
  // Of 100 events that are there already.
  static Look pass(World& world, Explainer& explainer) {
    std::vector<std::int64_t> seqs;
    Sql app(world.url);
    for (const std::string& seq : app.column("SELECT seq FROM waybill.undelivered WHERE seq % 10 < 8 LIMIT 100"))
      seqs.push_back(std::stoll(seq));
    const std::string zeros = array(seqs.size(), "0");
    return explainer.transact(
        world.queries.undelivered,
        {"out", app("SELECT owner FROM waybill.lease LIMIT 1"), array(1, std::to_string(busy)),
         array(1, app("SELECT term FROM waybill.lease LIMIT 1")), array(seqs.size(), std::to_string(busy)),
         pg_array<std::int64_t>(seqs), array(seqs.size(), "77"), array(seqs.size(), "blocked"), array(seqs.size(), "t"),
         zeros, zeros, zeros, zeros, zeros, array(seqs.size(), ""), array(seqs.size(), "f")});
  }
  // blocked.sql; the others of an event and a key that are not there.
  static Look about_lease(World& world, Explainer& explainer, const PgQuery& query) {
    Sql app(world.url);
    Parameters parameters{"out", app("SELECT owner FROM waybill.lease LIMIT 1"), array(1, std::to_string(busy)),
                          array(1, app("SELECT term FROM waybill.lease LIMIT 1"))};
    if (&query != &world.queries.blocked)
      parameters.insert(parameters.end(), {array(1, std::to_string(busy)), array(1, "9999999")});
    return explainer.transact(query, parameters);
  }
  static Look undelivered_list(World& world, Explainer& explainer) {
    return explainer.transact(world.queries.undelivered_list,
                              {"out", "{dead,retrying}", "NULL", "t*", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL",
                               "NULL", "NULL", "NULL", "50"});
  }

  static std::string array(std::size_t size, const std::string& value) {
    return pg_array(std::vector<std::string>(size, value));
  }
  // Of 16 shards, these; the late transaction is looked up, too.
  static Look probe(World& world, Explainer& explainer, const std::vector<int>& shards, int limit = 1001,
                    bool late = true) {
    std::vector<std::optional<std::string>> groups(16);
    std::vector<std::optional<std::string>> settled(16);
    for (const int shard : shards) {
      groups[static_cast<std::size_t>(shard)] = "1";
      settled[static_cast<std::size_t>(shard)] = world.settled;
    }
    Parameters parameters{array(1, world.base), pg_array(groups), pg_array(settled), std::to_string(limit)};
    if (late) parameters.push_back(pg_array(std::vector{'{' + world.late + '}'}));
    return explainer.transact(late ? world.queries.probe_late : world.queries.probe, parameters);
  }
  static Look bounds(World& world, Explainer& explainer) {
    return explainer.transact(world.queries.bounds, {world.base, "-1", "0", "20000"});
  }
  struct Stretch {
    std::string settled, last, floor, ceiling;
  };
  static Look walk(World& world, Explainer& explainer, int limit, const Stretch& stretch) {
    const std::string base = stretch.settled.substr(stretch.settled.find(':') + 1);
    return explainer.transact(
        world.queries.walk, {pg_array<int>(std::vector{busy}), array(1, stretch.settled), array(1, world.walking),
                             array(1, base.substr(0, base.find(':'))), array(1, stretch.last), array(1, stretch.floor),
                             array(1, stretch.ceiling), std::to_string(limit)});
  }
  static Look walk(World& world, Explainer& explainer, int limit) {
    return walk(world, explainer, limit, {world.settled, world.middle, world.floor, world.ceiling});
  }
  static Look news(World& world, Explainer& explainer) {
    return explainer.run(world.queries.news, {world.settled, world.base});
  }
  static Look beat(World& world, Explainer& explainer) {
    return explainer.run(world.queries.beat, {"relay", "relay", "5000", "{out}", "[]", "{}", "f"});
  }

  static Look list(World& world, Explainer& explainer) {
    return explainer.transact(world.queries.list, {world.ceiling, "t", "NULL", "NULL", "NULL", "NULL", "NULL",
                                                   "2020-01-01", "2120-01-01", "50", "0"});
  }
  // In the last thousand of the log.
  static Look find(World& world, Explainer& explainer) {
    return explainer.transact(
        world.queries.find, {world.id, std::to_string(std::max(0LL, std::stoll(world.ceiling) - 1000)), world.ceiling});
  }

  // With the plan made on the empty log, and with one made now: `ways` is what it may look at the log by, `rows` at how
  // much of it, in how many milliseconds (generously).
  void expect(const std::function<Look(World&, Explainer&)>& ask, const std::set<std::string>& ways, std::int64_t rows,
              double milliseconds) {
    Explainer late(world().url);
    Explainer custom(world().url);
    custom.custom = true;
    for (Explainer* explainer : {world().early.get(), &late, &custom}) {
      SCOPED_TRACE(explainer == &late     ? "planned on the full log"
                   : explainer == &custom ? "planned for these parameters"
                                          : "planned on the empty log");
      ask(world(), *explainer);  // into the caches
      const Look found = ask(world(), *explainer);
      EXPECT_EQ(ways, found.ways) << explainer->last;
      EXPECT_FALSE(found.sorts_backlog) << explainer->last;
      EXPECT_LE(found.rows, rows) << explainer->last;
      EXPECT_LT(explainer->milliseconds, milliseconds);
    }
  }

  const std::string by_xid = "by_xid";
  const std::string by_seq = "by_seq";
};

TEST_F(PlansTest, Row34_NobodyAnalyzed) {
  EXPECT_EQ(0,
            Sql(world().url).number("SELECT count(*) FROM pg_class WHERE relname ~ '^event_[0-7]$' AND reltuples > 0"));
  EXPECT_EQ(events + 1, Sql(world().url).number("SELECT count(*) FROM waybill.event"));
}

TEST_F(PlansTest, Row31_AProbeReadsNoMoreThanItsLimit) {
  const std::vector<int> all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late ? "with late transactions" : "without late transactions");
    expect([&](auto& world, auto& explainer) { return probe(world, explainer, all, 1001, late); }, {by_xid}, 1'010, 50);
    expect([&](auto& world, auto& explainer) { return probe(world, explainer, all, 11, late); }, {by_xid}, 20, 20);
  }
}

// It passes what is of others; a session does not ask it to pass very many (session.cc).
TEST_F(PlansTest, AProbeOfSomeShardsPassesTheOthers) {
  expect([](auto& world, auto& explainer) { return probe(world, explainer, {busy}); }, {by_xid}, 5'000, 50);
  expect([](auto& world, auto& explainer) { return probe(world, explainer, {quiet}); }, {by_xid}, events + 1, 1'000);
}

TEST_F(PlansTest, Row31_AChunkInTheMiddleOfALargeWindowReadsItsOwnEventsOnly) {
  expect([](auto& world, auto& explainer) { return walk(world, explainer, 1000); }, {by_xid, by_seq}, 1'100, 50);
  expect([](auto& world, auto& explainer) { return walk(world, explainer, 1); }, {by_xid, by_seq}, 10, 20);
}

// A late transaction's old event must not make the walk begin at its seq, among what was settled long ago.
TEST_F(PlansTest, AFirstChunkBeginsAtTheWindowsFloor) {
  expect(
      [](auto& world, auto& explainer) {
        return walk(world, explainer, 100, {world.halfway, "0", world.middle, world.ceiling});
      },
      {by_xid, by_seq}, 102, 20);
}

// What is newer than the window is none of its business.
TEST_F(PlansTest, ALastChunkEndsAtTheWindowsCeiling) {
  expect(
      [](auto& world, auto& explainer) {
        return walk(world, explainer, 1000,
                    {world.settled, world.middle, world.floor, std::to_string(std::stoll(world.middle) + 10)});
      },
      {by_xid, by_seq}, 12, 20);
}

TEST_F(PlansTest, TheBoundsOfAWindowAreReadInParts) {
  expect([](auto& world, auto& explainer) { return bounds(world, explainer); }, {by_xid}, 20'000 + 8, 300);
}

TEST_F(PlansTest, NewsAreOneEvent) {
  expect([](auto& world, auto& explainer) { return news(world, explainer); }, {by_xid}, 20, 50);
  expect([](auto& world, auto& explainer) { return beat(world, explainer); }, {}, 0, 50);
}

TEST_F(PlansTest, NoNewsTakeNoLongSearch) {
  const std::string now = Sql(world().url)("SELECT pg_current_snapshot()");
  const std::string base = now.substr(now.find(':') + 1, now.rfind(':') - now.find(':') - 1);
  expect([&](auto& world, auto& explainer) { return explainer.run(world.queries.news, {now, base}); }, {by_xid}, 0, 20);
}

TEST_F(PlansTest, TheNewestEventsAreListedWithoutTheOthers) {
  expect([&](auto& world, auto& explainer) { return list(world, explainer); }, {by_seq}, 16 * 51, 100);
}

TEST_F(PlansTest, AnEventIsFoundAmongThoseOfItsTime) {
  expect([](auto& world, auto& explainer) { return find(world, explainer); }, {by_seq}, 1'300, 100);
}

// All shards together are counted up to the limit; a quiet one is not looked for in what the others have before them.
TEST_F(PlansTest, StatusCountsUpToItsLimit) {
  std::int64_t blocks = 0;
  expect(
      [&](auto& world, auto& explainer) {
        const Look found = explainer.transact(world.queries.destinations, {});
        blocks = found.blocks;
        return found;
      },
      {}, 0, 200);
  EXPECT_LT(blocks, 15'000);
  EXPECT_EQ("f", Sql(world().url)("SELECT exact FROM waybill.pending('out')"));
  EXPECT_GE(Sql(world().url).number("SELECT events FROM waybill.pending('out')"), events);
}

TEST_F(PlansTest, WhoHoldsASlotIsFoundAtOnce) {
  const std::string slot = Sql(world().url)("SELECT slot FROM waybill.event LIMIT 1");
  std::int64_t blocks = 0;
  const PgQuery holding{"holding", "SELECT * FROM waybill.holding($1::smallint, 1)"};
  expect(
      [&](auto& /*world*/, auto& explainer) {
        const Look found = explainer.transact(holding, {slot});
        blocks = found.blocks;
        return found;
      },
      {}, 0, 100);
  EXPECT_LT(blocks, 500);
}

// Others have settled very much since this one last did.
TEST_F(PlansTest, AQuietDestinationIsRewoundWithoutTheCursorsOfOthers) {
  Sql app(world().url);
  app("INSERT INTO waybill.cursor (destination, shards, settled, hi, count) SELECT 'out', "
      "ARRAY(SELECT generate_series(0, 15)), '3:3:', '3', 0");
  app("INSERT INTO waybill.cursor (destination, shards, settled, hi, count) SELECT 'other', ARRAY[0], '3:3:', '3', 0 "
      "FROM generate_series(1, 20000)");
  std::int64_t blocks = 0;
  const PgQuery rewind{"rewind", "SELECT * FROM waybill.rewind('out', to_time => $1::timestamptz)"};
  expect(
      [&](auto& /*world*/, auto& explainer) {
        const Look found = explainer.transact(rewind, {"2120-01-01"});
        blocks = found.blocks;
        return found;
      },
      {}, 0, 100);
  EXPECT_LT(blocks, 2'000);
}

TEST_F(PlansTest, APlaceIsFoundByItsSeq) {
  expect([](auto& world, auto& explainer) { return explainer.transact(world.queries.place, {world.middle}); }, {by_seq},
         16, 50);
}

TEST_F(PlansTest, AnEventsStoryAndPayloadAreFoundByItsSeq) {
  expect(
      [](auto& world, auto& explainer) {
        return explainer.transact(world.queries.story, {array(1, std::to_string(busy)), array(1, world.middle)});
      },
      {by_seq}, 1, 50);
  expect(
      [](auto& world, auto& explainer) {
        return explainer.run(world.queries.payload, {std::to_string(busy), world.middle});
      },
      {by_seq}, 1, 50);
}

// With any of the plans: by these indexes, so many rows of `undelivered` and of the log, in so many milliseconds.
struct Bounds {
  std::set<std::string> ways{};
  std::int64_t undelivered = 0;
  std::int64_t log = 0;
  double milliseconds = 0;
};

class UndeliveredPlansTest : public PlansTest {
 protected:
  void expect(const std::function<Look(World&, Explainer&)>& ask, const Bounds& bounds) {
    Explainer late(world().url);
    for (Explainer* explainer : {world().early.get(), &late}) {
      SCOPED_TRACE(explainer == &late ? "planned on full tables" : "planned on empty tables");
      ask(world(), *explainer);  // into the caches
      const Look found = ask(world(), *explainer);
      EXPECT_EQ(bounds.ways, found.undelivered_ways) << explainer->last;
      EXPECT_THAT(found.ways, testing::AnyOf(std::set<std::string>{}, std::set{by_seq})) << explainer->last;
      EXPECT_LE(found.undelivered_rows, bounds.undelivered) << explainer->last;
      EXPECT_LE(found.rows, bounds.log) << explainer->last;
      EXPECT_LT(explainer->milliseconds, bounds.milliseconds);
    }
  }
};

TEST_F(UndeliveredPlansTest, AKeysNextEventsAreFetchedWithoutTheOthers) {
  expect([](auto& world, auto& explainer) { return fetch(world, explainer, blocked_key); },
         {{"undelivered_by_key", "undelivered_by_due"}, 100, 100, 50});
}

TEST_F(UndeliveredPlansTest, WhatIsDueIsFetchedWithoutWhatIsNot) {
  expect([](auto& world, auto& explainer) { return fetch(world, explainer, 0); },
         {{"undelivered_by_key", "undelivered_by_due"}, 100, 100, 50});
  expect(
      [](auto& world, auto& explainer) {
        return explainer.transact(world.queries.next_due, {"out", pg_array<int>(std::vector{busy})});
      },
      {{"undelivered_by_due"}, 1, 0, 20});
}

TEST_F(UndeliveredPlansTest, WhatIsPassedIsFoundInTheLogBySeq) {
  expect([](auto& world, auto& explainer) { return pass(world, explainer); }, {{}, 0, 100, 100});
}

TEST_F(UndeliveredPlansTest, RowsEndByTheirSeqAndKeysByTheirIndex) {
  expect([](auto& world, auto& explainer) { return about_lease(world, explainer, world.queries.delivered); },
         {{"undelivered_pkey", "Tid Scan"}, 0, 0, 20});
  expect([](auto& world, auto& explainer) { return about_lease(world, explainer, world.queries.bury); },
         {{"undelivered_by_key", "Tid Scan"}, 0, 0, 20});
}

TEST_F(UndeliveredPlansTest, BlockedKeysAreCountedByTheirIndex) {
  expect([](auto& world, auto& explainer) { return about_lease(world, explainer, world.queries.blocked); },
         {{"undelivered_by_key", "undelivered_by_due", "undelivered_pkey"}, events / 2, 0, 500});
}

TEST_F(UndeliveredPlansTest, ListsAndCountsEndAtTheirLimits) {
  expect([](auto& world, auto& explainer) { return undelivered_list(world, explainer); },
         {{"undelivered_by_standing"}, 100, 100, 50});
  expect([](auto& world, auto& explainer) { return explainer.transact(world.queries.standings, {"100"}); },
         {{"undelivered_by_standing", "undelivered_by_key"}, 305, 0, 50});
  expect(
      [](auto& world, auto& explainer) {
        return explainer.transact(world.queries.blocked_keys, {"out", "10", "100"});
      },
      {{"undelivered_by_key", "undelivered_pkey"}, 105, 1, 50});
}

TEST_F(PlansTest, TheLogHasExactlyTwoIndexes) {
  EXPECT_THAT(Sql(world().url)
                  .column("SELECT indexdef FROM pg_indexes WHERE schemaname = 'waybill' AND tablename = "
                          "'event' ORDER BY 1"),
              testing::ElementsAre(testing::HasSubstr("(shard, seq)"), testing::HasSubstr("(xid, shard, seq)")));
}

// If all that is undelivered is of one key, the primary key has its events in order, too. With it, to find those of any
// other key was to walk through all that wait behind the hot one.
TEST(HotKeyPlansTest, AnotherKeysEventsAreFoundWithoutThoseOfTheHotKey) {
  const std::string url = TmpPostgres::shared().fresh_database();
  postgres_store({.url = url})->schema()->migrate();
  Sql app(url);
  app("INSERT INTO waybill.undelivered (destination, shard, seq, slot, id, key, standing, blocks, attempts, crashes, "
      "sending, due, error) SELECT 'out', 3, n, 0, gen_random_uuid(), 77, 'blocked', true, 0, 0, 0, clock_timestamp(), "
      "'' FROM generate_series(1, 20000) n; ANALYZE waybill.undelivered");
  Explainer explainer(url);
  const PgQueries queries("waybill");
  EXPECT_EQ(0, explainer.transact(queries.fetch, {"out", "{3}", "{78}", "{0}", "{1}"}).undelivered_rows)
      << explainer.last;
  app("INSERT INTO waybill.destination (name) VALUES ('out'); INSERT INTO waybill.lease (destination, shard, term, "
      "owner) VALUES ('out', 3, 1, 'me')");
  EXPECT_EQ(0, explainer.transact(queries.bury, {"out", "me", "{3}", "{1}", "{3}", "{78}"}).undelivered_rows)
      << explainer.last;
  app("UPDATE waybill.undelivered SET key = 78 WHERE seq = 20000");
  EXPECT_LE(explainer.transact(queries.blocked_keys, {"out", "10", "100"}).undelivered_rows, 110) << explainer.last;
}

}  // namespace
}  // namespace waybill
