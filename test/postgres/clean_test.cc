// Cleaning on a real server: nothing that somebody still needs goes, and nobody waits for it to go.

#include <atomic>
#include <future>

#include "postgres/clean_fixture.h"

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(CleanTest, Row32_WhatIsOldAndSettledEverywhereGoes) {
  for (const char* name : {"a", "b", "c"}) put(name);
  publish();
  grow_old();
  put("d");
  const Cleaned cleaned = clean();
  EXPECT_EQ(3, cleaned.events.value);
  EXPECT_TRUE(cleaned.events.exact);
  EXPECT_THAT(cleaned.held_back, IsEmpty());
  EXPECT_EQ("d", log());
  EXPECT_EQ("d", Reader(*store).names());
}

TEST_F(CleanTest, WhatIsYoungStays) {
  put("a");
  publish();
  app("UPDATE waybill.event SET slot = " + far_slot());
  EXPECT_EQ(0, clean().events.value);
  // Nor does the slot go that is written now, or is about to be.
  app("UPDATE waybill.event SET created_at = created_at - interval '8 days', slot = " + far_slot(0));
  EXPECT_EQ(0, clean().events.value);
  EXPECT_EQ("a", log());
}

TEST_F(CleanTest, TheSlotThatIsWrittenNextIsLeftAloneWhenItsTimeIsNear) {
  put("a");
  publish();
  // As if the present slot ended in 5 minutes.
  app("UPDATE waybill.identity SET slot_seconds = (extract(epoch FROM clock_timestamp())::bigint + 300) / 100");
  app("UPDATE waybill.event SET created_at = created_at - interval '9000 days', slot = (SELECT "
      "((extract(epoch FROM clock_timestamp())::bigint + 400) / slot_seconds) % 8 FROM waybill.identity)");
  const auto upkeep = store->upkeep();
  EXPECT_EQ(0, upkeep->clean({}).events.value);
  app("UPDATE waybill.identity SET slot_seconds = (extract(epoch FROM clock_timestamp())::bigint + 3000) / 100");
  app("UPDATE waybill.event SET slot = (SELECT "
      "((extract(epoch FROM clock_timestamp())::bigint + 3100) / slot_seconds) % 8 FROM waybill.identity)");
  EXPECT_EQ(1, upkeep->clean({}).events.value);
}

TEST_F(CleanTest, ADryRunChangesNothing) {
  put("a");
  publish();
  grow_old();
  app("INSERT INTO waybill.dedup VALUES ('default', 'x', waybill.new_id(), clock_timestamp() - interval '8 days')");
  const Cleaned cleaned = store->upkeep()->clean({.dry = true});
  EXPECT_EQ(1, cleaned.events.value);
  EXPECT_EQ(1, cleaned.dedup.value);
  EXPECT_EQ("a", log());
  EXPECT_EQ(1, app.number("SELECT count(*) FROM waybill.dedup"));
}

TEST_F(CleanTest, ADestinationHoldsTheLogBackAndIsNamed) {
  for (const char* name : {"a", "b"}) put(name);
  publish();
  Reader slow(*store, "slow");
  slow.read_all();
  slow.settle({{0, 1}});
  slow.leave();
  grow_old();
  const Cleaned held = clean();
  EXPECT_EQ(0, held.events.value);
  EXPECT_THAT(held.held_back, ElementsAre(HasSubstr("destination 'slow' has not settled 1 events")));
  EXPECT_EQ("ab", log());
  publish("slow");
  EXPECT_EQ(2, clean().events.value);
}

// Nobody serves it any more; it is still known, and still owed the event.
TEST_F(CleanTest, ADestinationThatIsGoneHoldsTheLogBackUntilItIsForgotten) {
  put("a");
  publish();
  Reader(*store, "gone").leave();
  app("DELETE FROM waybill.cursor WHERE destination = 'gone'");
  grow_old();
  EXPECT_THAT(clean().held_back, ElementsAre(HasSubstr("'gone'")));
  store->operate()->forget({.id = EventId::make()}, "gone", false);
  EXPECT_EQ(1, clean().events.value);
}

TEST_F(CleanTest, Row82_AnOpenTransactionIsWaitedForAndNotLost) {
  put("a");
  publish();
  grow_old();
  Sql late(url);
  begin_late(late, far_slot());
  EXPECT_THAT(clean().held_back, ElementsAre(HasSubstr("is in use")));
  late("COMMIT");
  EXPECT_THAT(clean().held_back, ElementsAre(HasSubstr("'out' has not settled 1 events")));
  EXPECT_EQ("late", Reader(*store).names());
}

// A dump holds the slot for hours. Whoever reads the log would stand behind a cleaner that waited for it.
TEST_F(CleanTest, Row25_82_NobodyWaitsBehindACleanerBesideADump) {
  put("a");
  publish();
  grow_old();
  Sql dump(url);
  dump("BEGIN; TABLE waybill.event");
  Sql cleaner(url);
  cleaner("SET log_lock_waits = on; SET deadlock_timeout = '1ms'; SET client_min_messages = log");
  std::string said;
  PQsetNoticeProcessor(
      cleaner.raw(), [](void* text, const char* notice) { *static_cast<std::string*>(text) += notice; }, &said);
  // By whom is known to whoever has asked before anything is counted, copied or locked.
  EXPECT_THAT(clean().held_back, ElementsAre(HasSubstr("is in use by process " + dump("SELECT pg_backend_pid()"))));
  EXPECT_EQ("busy", cleaner("SELECT waybill.empty_slot(" + far_slot() + "::smallint, interval '7 days')"));
  EXPECT_EQ("", said);  // Else: "process … still waiting for AccessExclusiveLock".
}

// The lock is had because it commits just then; that nothing is missed rests on what is looked at afterwards.
TEST_F(CleanTest, Row82_WhatCommitsJustBeforeTheLockIsHadIsNotLost) {
  put("a");
  publish();
  grow_old();
  const std::string slot = far_slot();
  int changed = 0;
  for (int i = 0; i < 10 && changed < 3; ++i) {
    Sql late(url);
    begin_late(late, slot);
    auto emptied = std::async(std::launch::async, [&] {
      Sql cleaner(url);
      return cleaner("SELECT waybill.empty_slot(" + slot + "::smallint, interval '7 days')");
    });
    EXPECT_TRUE(eventually([&] {
      return app("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1" ||
             emptied.wait_for(0s) == std::future_status::ready;
    }));
    late("COMMIT");
    const std::string result = emptied.get();
    EXPECT_THAT(result, testing::AnyOf("changed", "busy"));
    changed += result == "changed" ? 1 : 0;
    EXPECT_EQ(2 + i, app.number("SELECT count(*) FROM waybill.event"));
    // Settled and old, so that the next round comes as far.
    publish();
    grow_old();
  }
  EXPECT_EQ(3, changed);
}

// What was looked at before the slot was locked still holds under the lock, or the slot stays.
TEST_F(CleanTest, WhatWasNotArchivedStays) {
  put("a");
  publish();
  grow_old();
  Sql late(url);
  begin_late(late, far_slot());
  const std::string archived = app("SELECT pg_current_snapshot()");
  late("COMMIT");
  publish();
  grow_old();
  const auto empty = [&](const std::string& seen) {
    return app("SELECT waybill.empty_slot(" + far_slot() + "::smallint, interval '7 days', " + seen + ")");
  };
  EXPECT_EQ("changed", empty('\'' + archived + '\'')) << "it was open then";
  put("b");
  publish();
  app("UPDATE waybill.event SET created_at = created_at - interval '8 days', slot = " + far_slot() +
      " WHERE created_at > clock_timestamp() - interval '1 day'");
  EXPECT_EQ("changed", empty("'3:3:'"));
  EXPECT_EQ(3, app.number("SELECT count(*) FROM waybill.event"));
  EXPECT_EQ("emptied", empty("NULL"));
}

TEST_F(CleanTest, OnlyReadCommittedWillDo) {
  EXPECT_EQ("25000",
            app.refusal("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT waybill.empty_slot(1::smallint, '1 d')"));
}

TEST_F(CleanTest, Row25_ADumpIsNotDisturbedAndStopsNobody) {
  put("a");
  publish();
  grow_old();
  Sql dump(url);
  dump("BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE waybill.event IN ACCESS SHARE MODE");
  std::atomic<bool> done = false;
  std::chrono::steady_clock::duration longest{};
  std::thread producer([&] {
    Sql sql(url);
    while (!done) {
      const auto before = std::chrono::steady_clock::now();
      put(sql, "x");
      longest = std::max(longest, std::chrono::steady_clock::now() - before);
    }
  });
  const auto before = std::chrono::steady_clock::now();
  const Cleaned cleaned = clean();
  const auto took = std::chrono::steady_clock::now() - before;
  done = true;
  producer.join();
  EXPECT_THAT(cleaned.held_back, ElementsAre(HasSubstr("is in use")));
  EXPECT_LT(took, 2s);
  EXPECT_LT(longest, 100ms) << std::chrono::duration<double, std::milli>(longest).count();
  dump("COMMIT");
  EXPECT_EQ(1, clean().events.value);
}

TEST_F(CleanTest, Row82_WhatIsUndeliveredIsKeptAndStillFetched) {
  for (const char* name : {"a", "b", "c", "d", "e"}) put(name);
  Reader reader(*store);
  const auto events = reader.read_all();
  constexpr std::uint64_t key = 7;
  ASSERT_THAT(reader.pass(0, {{.seq = events[0].seq, .key = key, .blocks = true, .attempts = 1},
                              {.seq = events[1].seq, .key = key, .standing = Standing::blocked, .blocks = true},
                              {.seq = events[2].seq, .standing = Standing::scheduled, .wait = 1h},
                              {.seq = events[3].seq, .key = key, .standing = Standing::dead}}),
              IsEmpty());
  publish("other");
  grow_old();
  const Cleaned cleaned = clean();
  EXPECT_EQ(5, cleaned.events.value);
  EXPECT_THAT(cleaned.held_back, IsEmpty());
  EXPECT_EQ("", log());
  EXPECT_EQ("ab", reader.fetched(key));
  EXPECT_EQ(4, app.number("SELECT count(*) FROM waybill.kept"));
  EXPECT_THAT(store->inspector()->undelivered({}).events, SizeIs(4));
}

// Not only what was copied beforehand.
TEST_F(CleanTest, Row82_WhatIsUndeliveredIsKeptUnderTheLock) {
  put("a");
  Reader reader(*store);
  const auto events = reader.read_all();
  reader.pass(0, {{.seq = events.at(0).seq, .key = 7, .blocks = true, .attempts = 1}});
  grow_old();
  EXPECT_EQ("emptied", app("SELECT waybill.empty_slot(" + far_slot() + "::smallint, interval '7 days')"));
  EXPECT_EQ("a", reader.fetched(7));
}

TEST_F(CleanTest, WhereTheClockCameRoundItSaysSoAndWaits) {
  put("a");
  publish();
  grow_old();
  put("b");
  publish();
  app("UPDATE waybill.event SET slot = " + far_slot());
  EXPECT_THAT(clean().held_back, ElementsAre(HasSubstr("the ring has come round")));
  EXPECT_EQ("ab", log());
  app("UPDATE waybill.event SET created_at = created_at - interval '8 days'");
  EXPECT_EQ(2, clean().events.value);
}

TEST_F(CleanTest, ARetentionThatTheRingCannotHoldIsSaid) {
  put("a");
  EXPECT_THAT(store->upkeep()->clean({.events_older_than = std::chrono::hours(24 * 30)}).held_back,
              ElementsAre(HasSubstr("nothing can go")));
  EXPECT_THAT(store->upkeep()->clean({.events_older_than = std::chrono::hours(24 * 36'500)}).held_back, IsEmpty());
}

TEST_F(CleanTest, OneSlotAtACallTheOldestFirst) {
  put("a");
  publish();
  app("UPDATE waybill.event SET created_at = created_at - interval '9 days', slot = " + far_slot(3));
  put("b");
  publish();
  app("UPDATE waybill.event SET created_at = created_at - interval '8 days', slot = " + far_slot(4) +
      " WHERE created_at > clock_timestamp() - interval '1 day'");
  EXPECT_TRUE(clean().more);
  EXPECT_EQ("b", log());
  EXPECT_FALSE(clean().more);
  EXPECT_EQ("", log());
}

TEST_F(CleanTest, OneOfSeveralCleansTheOthersDoNot) {
  put("a");
  publish();
  grow_old();
  app("BEGIN; SELECT waybill.clean_alone()");
  EXPECT_EQ(0, clean().events.value);
  app("COMMIT");
  std::vector<std::future<Cleaned>> cleaners;
  for (int i = 0; i < 4; ++i) cleaners.push_back(std::async(std::launch::async, [&] { return clean(); }));
  std::int64_t events = 0;
  for (auto& cleaner : cleaners) events += cleaner.get().events.value;
  EXPECT_EQ(1, events);
}

// Everybody who can connect can take any advisory lock.
TEST_F(CleanTest, AStrangersLocksDoNotStopIt) {
  put("a");
  publish();
  grow_old();
  app("INSERT INTO waybill.dedup VALUES ('default', 'x', waybill.new_id(), clock_timestamp() - interval '8 days')");
  app("DO $$ BEGIN CREATE USER stranger; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
  Sql stranger(server.url(app("SELECT current_database()"), "stranger"));
  stranger("SELECT pg_advisory_lock(hashtextextended('waybill clean', 0))");
  EXPECT_EQ("42501", stranger.refusal("BEGIN; LOCK TABLE waybill.cleaned IN ACCESS SHARE MODE"));
  const Cleaned cleaned = clean();
  EXPECT_EQ(1, cleaned.events.value);
  EXPECT_EQ(1, cleaned.dedup.value);
}

// Without an age everything would be old.
TEST_F(CleanTest, WithoutAnAgeNothingGoes) {
  put("a");
  publish();
  app("UPDATE waybill.event SET slot = " + far_slot());
  EXPECT_EQ("22004", app.refusal("SELECT waybill.empty_slot(" + far_slot() + "::smallint, NULL)"));
  EXPECT_EQ("young", app("SELECT state FROM waybill.slots(NULL)"));
  EXPECT_EQ("a", log());
  app("SELECT waybill.forget('out', dry => NULL)");
  EXPECT_EQ("out", app("SELECT name FROM waybill.destination")) << "NULL is not a decision";
}

TEST_F(CleanTest, Row82_ARewindUnderWayIsWaitedFor) {
  put("a");
  publish();
  grow_old();
  Sql person(url);
  person("BEGIN; SELECT waybill.rewind('out', dry => false)");
  EXPECT_THAT(clean().held_back, ElementsAre(HasSubstr("is in use")));
  person("COMMIT");
  EXPECT_THAT(clean().held_back, ElementsAre(HasSubstr("'out' has not settled 1 events")));
}

TEST_F(CleanTest, OldRowsBesideTheLogGo) {
  for (const char* name : {"a", "b", "c", "d"}) put(name);
  Reader reader(*store);
  const auto events = reader.read_all();
  Undelivered dead{.key = 7, .standing = Standing::dead, .attempts = 3};
  std::vector<Undelivered> rows(4, dead);
  for (std::size_t i = 0; i < 4; ++i) rows[i].seq = events[i].seq;
  rows[1].standing = Standing::held;
  rows[2].blocks = true;
  reader.pass(0, rows);
  for (int i = 1; i <= 4; ++i)
    app("INSERT INTO waybill.attempt VALUES ('out', 0, " + std::to_string(events[static_cast<std::size_t>(i - 1)].seq) +
        ", 1, clock_timestamp() - interval '100 days', 'r', 'retry', 'x')");
  app("UPDATE waybill.undelivered SET since = clock_timestamp() - interval '91 days' WHERE seq < 4");
  app("UPDATE waybill.undelivered SET since = clock_timestamp() - interval '89 days' WHERE seq = 4");
  app("INSERT INTO waybill.dedup SELECT 'default', i::text, waybill.new_id(), clock_timestamp() - i * interval '1 day' "
      "FROM generate_series(1, 10) i");
  app("SELECT waybill.pause('out'); SELECT waybill.resume('out')");
  app("UPDATE waybill.operation SET at = at - interval '91 days' WHERE kind = 'pause'");
  app("UPDATE waybill.kept SET created_at = created_at - interval '91 days'");
  grow_old();
  const Cleaned cleaned = clean();
  EXPECT_EQ(1, cleaned.dead.value);
  EXPECT_EQ(4, cleaned.dedup.value);
  // The held one waits for a person, the one that blocks its key for a decision; the last is young.
  EXPECT_EQ("2 3 4", app("SELECT string_agg(seq::text, ' ' ORDER BY seq) FROM waybill.undelivered"));
  EXPECT_EQ("2 3 4", app("SELECT string_agg(seq::text, ' ' ORDER BY seq) FROM waybill.kept"));
  EXPECT_EQ("2 3 4", app("SELECT string_agg(seq::text, ' ' ORDER BY seq) FROM waybill.attempt"));
  EXPECT_EQ("resume", app("SELECT string_agg(kind, ' ') FROM waybill.operation"));
  EXPECT_EQ("", log());
}

class CursorRotationTest : public PostgresTest {
 protected:
  CursorRotationTest() : PostgresTest(4) {}
};

TEST_F(CursorRotationTest, TheNewestRowOfEachShardStaysAndSoDoesTheHistoryOfWhatIsInTheLog) {
  Reader(*store).leave();
  // One row for all shards, then some for two of them, then one for the last.
  app("INSERT INTO waybill.cursor (destination, shards, settled, hi, count) SELECT 'out', ARRAY[0, i % 3], '3:3:', "
      "'3', 0 "
      "FROM generate_series(1, 300) i");
  app("UPDATE waybill.cursor SET settled_at = settled_at - interval '30 days'");
  const std::string newest = app("SELECT string_agg(DISTINCT cursor::text, ' ') FROM waybill.place");
  put("a");
  app("UPDATE waybill.event SET created_at = created_at - interval '31 days'");
  store->upkeep()->clean({});
  EXPECT_EQ(301, app.number("SELECT count(*) FROM waybill.cursor")) << "an event is older than they are";
  app("TRUNCATE waybill.event");
  store->upkeep()->clean({});
  EXPECT_EQ(newest, app("SELECT string_agg(DISTINCT id::text, ' ') FROM waybill.cursor"));
  EXPECT_EQ(4, app.number("SELECT count(*) FROM waybill.place WHERE cursor IS NOT NULL"));
}

TEST_F(CleanTest, AFollowerIsToldThatTheLogDoesNotReachBack) {
  const std::string before = store->follow()->read("now", 1).place;
  put("a");
  publish();
  const std::string after = store->follow()->read("now", 1).place;
  grow_old();
  clean();
  EXPECT_THROW(store->follow()->read(before, 10), Error);
  put("b");
  EXPECT_THAT(store->follow()->read(after, 10).items, SizeIs(1));
  EXPECT_THAT(store->follow()->read("", 10).items, SizeIs(1));
}

TEST_F(CleanTest, ARelayMayCleanAndMayNotEmptyTheLogOtherwise) {
  put("a");
  publish();
  const std::string database = app("SELECT current_database()");
  for (const char* role : {"relay", "reader"})
    app(std::string("DO $$ BEGIN CREATE USER only_") + role +
        "; EXCEPTION WHEN duplicate_object THEN NULL; END $$; GRANT waybill_" + role + " TO only_" + role);
  const auto as = [&](const std::string& user) {
    return postgres_store({.url = server.url(database, user)})->upkeep();
  };
  Sql relay(server.url(database, "only_relay"));
  EXPECT_EQ("42501", relay.refusal("TRUNCATE waybill.event_1"));
  EXPECT_EQ("needed", relay("SELECT waybill.empty_slot(" + far_slot(0) + "::smallint, '1 h')"));
  EXPECT_EQ("42501", relay.refusal("SELECT waybill.anchor(false)"));
  grow_old();
  EXPECT_THROW(as("only_reader")->clean({}), Error);
  EXPECT_EQ("a", log());
  EXPECT_EQ(1, as("only_relay")->clean({}).events.value);
}

}  // namespace
}  // namespace waybill
