// The server changes under a connection: behind a pooler nobody is told. What was read from the one means nothing on
// the other, and is not used there.

#include <future>
#include <mutex>
#include <set>

#include "waybill/relay.h"
#include "waybill/sink.h"

#include "postgres/standby.h"
#include "support/tmp_pgbouncer.h"

namespace waybill {
namespace {

using testing::HasSubstr;

// A standby, and a pooler before the primary. The standby is asynchronous, and cut off before it is promoted.
class FailoverTest : public PostgresTest {
 protected:
  FailoverTest() : PostgresTest(4, own()) { app.burn(1'000); }
  static TmpPostgres& own() {
    static TmpPostgres server;
    return server;
  }

  // The pooler leads to it as soon as it is promoted.
  void promote() {
    standby_.take_over();
    pooler_.point_to(standby_.port());
  }

  std::unique_ptr<Store> pooled(Failover failover) {
    return postgres_store({.url = pooler_.url(name_), .failover = failover});
  }

  const std::string name_ = app("SELECT current_database()");
  StandbyOf standby_{server, name_};
  Sql& there_ = standby_.sql();
  TmpPgBouncer pooler_{server.port(), "postgres", 3, name_};
};

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::retry, error.remedy());
    return error.what();
  }
}

TEST_F(FailoverTest, Row16_18_WhatWasReadFromAServerIsNotUsedOnAnother) {
  const auto through = pooled(Failover::go_on);
  put("a");
  Reader reader(*through);
  EXPECT_EQ("a", reader.names());
  const auto follower = through->follow();
  const std::string place = follower->read("", 10).place;
  standby_.catch_up();
  standby_.cut();
  app.burn(200);
  put("b");
  EXPECT_EQ("b", reader.names());
  promote();
  put(there_, "c");
  const auto look = [&] { reader.session->exchange({}, {reader.shards, 10, 1'000'000}); };
  EXPECT_TRUE(eventually([&] { return refusal_of(look).find("another server") != std::string::npos; }));
  EXPECT_THAT(refusal_of([&] { reader.settle_all(); }), HasSubstr("another server"));
  EXPECT_THAT(refusal_of([&] { reader.membership->poll(); }), HasSubstr("another server"));
  EXPECT_THAT(refusal_of([&] { follower->read(place, 10); }), HasSubstr("another server"));
}

// As an operator sees it: the application writes straight away, and the relay lives through it.
TEST_F(FailoverTest, Row16_ARelayBehindAPoolerDeliversWhatTheNewPrimaryHas) {
  const auto through = pooled(Failover::go_on);
  std::mutex mutex;
  std::set<std::string> delivered;
  Relay relay(*through, {.name = "test", .lease = 1s});
  relay.add({.name = "out"}, sink_from([&](const EventView& event) {
              const std::lock_guard lock(mutex);
              delivered.emplace(event.payload);
              return Outcome::Kind::delivered;
            }));
  const auto has = [&](const std::string& name) {
    const std::lock_guard lock(mutex);
    return delivered.contains('"' + name + '"');
  };
  std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  put("first");
  ASSERT_TRUE(eventually([&] { return has("first"); }));
  standby_.catch_up();
  standby_.cut();
  app.burn(200);
  put("lost");
  ASSERT_TRUE(eventually([&] { return has("lost"); }));
  promote();
  for (int i = 0; i < 20; ++i) put(there_, std::to_string(i), std::to_string(i));
  EXPECT_TRUE(eventually(
      [&] {
        int count = 0;
        for (int i = 0; i < 20; ++i) count += has(std::to_string(i)) ? 1 : 0;
        return count == 20;
      },
      20s));
}

TEST_F(FailoverTest, Row16_ARelayThatIsToStopDoesSoBehindAPooler) {
  const auto through = pooled(Failover::stop);
  Relay relay(*through, {.name = "test", .lease = 1s});
  relay.add({.name = "out"}, sink_from([](const EventView&) { return Outcome::Kind::delivered; }));
  std::stop_source stop;
  auto ending = std::async(std::launch::async, [&]() -> std::string {
    try {
      relay.run(stop.get_token());
      return "it ended";
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::fix_config, error.remedy());
      return error.what();
    }
  });
  put("first");
  EXPECT_TRUE(eventually([&] { return app("SELECT sum(count) FROM waybill.cursor") == "1"; }));
  standby_.catch_up();
  promote();
  EXPECT_EQ(std::future_status::ready, ending.wait_for(20s));
  stop.request_stop();
  EXPECT_THAT(ending.get(), HasSubstr("timeline 2, it was on 1"));
}

// A cluster to which the tables were copied has another identifier, and the identity row of the first.
TEST_F(FailoverTest, Row16_AClusterWithACopyIsNotTakenForTheFirst) {
  TmpPostgres other;
  Sql(other.url("postgres"))("CREATE DATABASE " + name_);
  run_command({"sh", "-c", "pg_dump --no-privileges '" + url + "' | psql -q -d '" + other.url(name_) + "' >/dev/null"},
              "postgres");
  const auto through = pooled(Failover::go_on);
  put("a");
  Reader reader(*through);
  EXPECT_EQ("a", reader.names());
  pooler_.point_to(other.port());
  const auto look = [&] { reader.session->exchange({}, {reader.shards, 10, 1'000'000}); };
  EXPECT_TRUE(eventually([&] { return refusal_of(look).find("another server") != std::string::npos; }));
  EXPECT_THAT(why_unreadable(*through), HasSubstr("made in another cluster or database"));
}

// Two that both take themselves for the primary: once one connection has found the later one, none uses the other.
TEST_F(FailoverTest, Row18_NobodyGoesOnWithTheFormerPrimaryOnceTheNewOneIsKnown) {
  const auto either = postgres_store({.url = pooler_.url(name_), .failover = Failover::go_on});
  Reader reader(*either);
  standby_.catch_up();
  standby_.promote();
  pooler_.point_to(standby_.port());
  ASSERT_TRUE(eventually([&] { return why_unreadable(*either).empty(); }));
  pooler_.point_to(server.port());  // It is alive, and says that it is the primary.
  put("a");
  ASSERT_TRUE(eventually([&] { return Sql(pooler_.url(name_))("SELECT count(*) FROM waybill.event") == "1"; }));
  EXPECT_THAT(refusal_of([&] {
                reader.session->exchange({}, {reader.shards, 10, 1'000'000});
              }),
              HasSubstr("timeline 1, another one is on 2"));
}

// --- Places of readers

TEST_F(FailoverTest, Row16_APlaceOfALostTailIsRefusedAndAnEarlierOneIsGood) {
  put("a");
  const std::string kept = store->follow()->read("", 10).place;
  standby_.catch_up();
  standby_.cut();
  put("b");
  const std::string lost = store->follow()->read("", 10).place;
  app.burn(50);
  promote();
  const auto promoted = postgres_store({.url = standby_.url(name_), .failover = Failover::go_on});
  for (int i = 0; i < 100; ++i) put(there_, "x");  // Their numbers are those of what was lost, and more.
  try {
    promoted->follow()->read(lost, 10);
    ADD_FAILURE() << "a place of events that are lost was taken";
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_input, error.remedy());
    EXPECT_THAT(error.what(), HasSubstr("another history"));
  }
  EXPECT_EQ(100U, promoted->follow()->read(kept, 200).items.size());
}

// In pages, the reader having been in the middle of them.
TEST_F(FailoverTest, Row16_APlaceInsideAWindowGoesOnInTheNextHistory) {
  for (int i = 0; i < 30; ++i) put(std::to_string(i), std::to_string(i));
  const std::string inside = store->follow()->read("", 10).place;
  standby_.catch_up();
  promote();
  const auto promoted = postgres_store({.url = standby_.url(name_), .failover = Failover::go_on});
  put(there_, "last");
  const auto follower = promoted->follow();
  std::size_t count = 0;
  std::string place = inside;
  for (bool more = true; more;) {
    const auto page = follower->read(place, 7);
    count += page.items.size();
    more = !page.items.empty();
    place = page.place;
  }
  EXPECT_EQ(21U, count);
}

// What was cleaned lies before the place, but for a transaction that was open there.
TEST_F(PostgresTest, APlaceBeforeCleanedEventsOfALateTransactionIsRefused) {
  Sql late(url);
  late("BEGIN");
  put(late, "late");
  put("a");
  const std::string place = store->follow()->read("now", 1).place;
  late("COMMIT");
  EXPECT_THAT(store->follow()->read(place, 10).items, testing::SizeIs(1));
  Reader reader(*store);
  reader.read_all();
  reader.settle_all();
  app("UPDATE waybill.event SET created_at = created_at - interval '8 days', slot = (slot + 4) % 8");
  EXPECT_EQ(2, store->upkeep()->clean({}).events.value);
  EXPECT_THROW(store->follow()->read(place, 10), Error);
}

// --- A standby that every commit waits for

class SynchronousTest : public PostgresTest {
 protected:
  SynchronousTest() : PostgresTest(4, own()) {
    app("SET synchronous_commit = local");  // The application does not wait; what it writes may be lost.
    wait_for_standby("'*'");
  }
  void TearDown() override { wait_for_standby("''"); }
  static TmpPostgres& own() {
    static TmpPostgres server;
    return server;
  }

  void wait_for_standby(const std::string& which) {
    app("ALTER SYSTEM SET synchronous_standby_names = " + which);
    app("SELECT pg_reload_conf()");
    EXPECT_TRUE(eventually([&] { return "'" + app("SHOW synchronous_standby_names") + "'" == which; }));
  }
  void cut() {
    standby_.cut();
    ASSERT_TRUE(eventually([&] { return app.number("SELECT count(*) FROM pg_stat_replication") == 0; }, 30s));
  }
  // As an operator does who thinks that a session hangs.
  bool cancel() {
    return app("SELECT bool_or(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "t";
  }

  StandbyOf standby_{server, "postgres"};
};

TEST_F(SynchronousTest, Row16_AClaimWaitsForTheStandbyAndCountsForNothingIfTheWaitIsCancelled) {
  Reader reader(*store);
  put("a");
  EXPECT_EQ("a", reader.names());
  cut();
  put("b");
  auto reading = std::async(std::launch::async, [&] { return reader.exchange(10).size(); });
  ASSERT_TRUE(eventually(
      [&] { return app.number("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == 1; }));
  EXPECT_EQ(std::future_status::timeout, reading.wait_for(100ms));
  ASSERT_TRUE(cancel());
  EXPECT_THAT(refusal_of([&] { reading.get(); }), HasSubstr("on this server only"));
}

TEST_F(SynchronousTest, Row16_NothingIsPublishedThatTheStandbyDoesNotHave) {
  std::atomic<int> delivered = 0;
  Relay relay(*store, {.name = "test", .lease = 30s});
  relay.add({.name = "out"}, sink_from([&](const EventView&) {
              ++delivered;
              return Outcome::Kind::delivered;
            }));
  std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  put("a");
  ASSERT_TRUE(eventually([&] { return delivered == 1; }));
  cut();
  put("b");
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(eventually([&] { return cancel(); }));
  EXPECT_EQ(1, delivered);
  wait_for_standby("''");  // It need not have it any more.
  EXPECT_TRUE(eventually([&] { return delivered == 2; }, 20s));
}

}  // namespace
}  // namespace waybill
