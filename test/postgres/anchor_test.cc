// A log that finds itself on another server: restored, copied, promoted. It is noticed, and goes on without a loss.

#include <future>
#include <set>

#include "waybill/relay.h"

#include "postgres/anchor_fixture.h"
#include "postgres/standby.h"

namespace waybill {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TmpPostgres& young_server() {
  static TmpPostgres server;
  return server;
}

TmpPostgres& old_server() {
  static TmpPostgres server;
  static const bool aged = [] {
    Sql(server.url("postgres")).burn(30'000);
    return true;
  }();
  (void)aged;
  return server;
}

TEST_F(AnchorTest, HereThereIsNothingToDo) {
  make_history();
  const Anchored anchored = store->upkeep()->anchor({.id = EventId::make()}, false);
  EXPECT_FALSE(anchored.needed) << anchored.found;
  EXPECT_EQ(0, app.number("SELECT count(*) FROM waybill.destination WHERE paused"));
}

TEST_F(AnchorTest, Row33_ADumpInAYoungerServerGoesOnWithoutALoss) {
  make_history();
  const std::string copy_url = restored_on(young_server());
  Sql there(copy_url);
  ASSERT_LT(there.number("SELECT pg_current_xact_id()::text"),
            app.number("SELECT max(hi::text::bigint) FROM waybill.cursor"));
  const auto copy = postgres_store({.url = copy_url});
  EXPECT_THAT(why_unreadable(*copy), HasSubstr("waybill anchor --dry-run"));

  // The application is quicker than the operator.
  const int before = next_;
  write(there, 20);
  there("BEGIN; SAVEPOINT s");
  write(there, 5);
  there("RELEASE s; COMMIT");
  const auto dry = copy->upkeep()->anchor({.id = EventId::make(), .by = "me"}, true);
  EXPECT_TRUE(dry.needed);
  EXPECT_THAT(dry.found, HasSubstr("another cluster"));
  EXPECT_THAT(dry.found, HasSubstr("transaction numbers"));
  EXPECT_THAT(why_unreadable(*copy), HasSubstr("waybill anchor --dry-run"));
  const Operation operation{.id = EventId::make(), .by = "me"};
  const auto anchored = copy->upkeep()->anchor(operation, false);
  EXPECT_TRUE(anchored.needed);
  EXPECT_EQ(dry.to_be_sent.value, anchored.to_be_sent.value);
  EXPECT_EQ(4, there.number("SELECT count(*) FROM waybill.destination WHERE paused") + 1) << "'new' is not known yet";
  EXPECT_FALSE(copy->upkeep()->anchor(operation, false).needed);
  EXPECT_EQ("anchor me", there("SELECT kind || ' ' || by FROM waybill.operation"));
  write(there, 10);

  std::set<std::string> written_there;
  for (int i = before + 1; i <= next_; ++i)
    written_there.insert("k" + std::to_string((i - 1) % 7) + "/" + std::to_string(i));
  expect_nothing_lost(*copy, written_there);
}

TEST_F(AnchorTest, WhatToExpectIsCountedRight) {
  make_history();
  std::size_t owed = 503;
  for (const char* destination : {"out", "slow"}) owed += rest(*store, destination).size();
  const auto copy = postgres_store({.url = restored_on(young_server())});
  EXPECT_EQ(owed, copy->upkeep()->anchor({.id = EventId::make()}, true).to_be_sent.value);
}

TEST_F(AnchorTest, ADumpInAnOlderServerKeepsItsNumbers) {
  make_history();
  const std::string copy_url = restored_on(old_server());
  const auto copy = postgres_store({.url = copy_url});
  EXPECT_THAT(why_unreadable(*copy), HasSubstr("waybill anchor"));
  Sql there(copy_url);
  const int before = next_;
  write(there, 20);
  const std::string numbers = there("SELECT md5(string_agg(xid::text, ',' ORDER BY seq)) FROM waybill.event");
  EXPECT_TRUE(copy->upkeep()->anchor({.id = EventId::make()}, false).needed);
  EXPECT_EQ(numbers, there("SELECT md5(string_agg(xid::text, ',' ORDER BY seq)) FROM waybill.event"));
  std::set<std::string> written_there;
  for (int i = before + 1; i <= next_; ++i)
    written_there.insert("k" + std::to_string((i - 1) % 7) + "/" + std::to_string(i));
  expect_nothing_lost(*copy, written_there);
}

// The numbers of old were ahead of the server when the rows came, and are behind it by the time somebody looks: what
// was written in between must not pass for settled.
TEST_F(AnchorTest, WhatWasWrittenInBetweenIsNotTakenForSettled) {
  make_history();
  TmpPostgres fresh;
  const std::string copy_url = restored_on(fresh);
  Sql there(copy_url);
  const int before = next_;
  write(there, 20);
  there.burn(20'000);
  const auto copy = postgres_store({.url = copy_url});
  copy->upkeep()->anchor({.id = EventId::make()}, false);
  std::set<std::string> written_there;
  for (int i = before + 1; i <= next_; ++i)
    written_there.insert("k" + std::to_string((i - 1) % 7) + "/" + std::to_string(i));
  expect_nothing_lost(*copy, written_there);
}

TEST_F(AnchorTest, AFollowersPlaceOfOldIsRefused) {
  make_history();
  const std::string place = store->follow()->read("", 100).place;
  TmpPostgres fresh;
  const auto copy = postgres_store({.url = restored_on(fresh)});
  copy->upkeep()->anchor({.id = EventId::make()}, false);
  Sql(fresh.url("postgres")).burn(10'000);
  EXPECT_THROW(copy->follow()->read(place, 10), Error);
  EXPECT_THAT(copy->follow()->read("", 10).items, testing::SizeIs(10));
}

TEST_F(AnchorTest, ACloneInTheSameClusterSendsNothingByItself) {
  make_history();
  const std::string name = app("SELECT current_database()");
  const std::string clone_url = server.url(name + "_clone");
  app = Sql(server.url("postgres"));
  ASSERT_TRUE(eventually([&] { return app.refusal("CREATE DATABASE " + name + "_clone TEMPLATE " + name).empty(); }));
  app = Sql(url);
  const auto clone = postgres_store({.url = clone_url});
  EXPECT_THAT(why_unreadable(*clone), HasSubstr("waybill anchor"));
  EXPECT_EQ("", why_unreadable(*store)) << "the original goes on";
  const auto anchored = clone->upkeep()->anchor({.id = EventId::make()}, false);
  EXPECT_EQ("another database", anchored.found);
  EXPECT_EQ(3, Sql(clone_url).number("SELECT count(*) FROM waybill.destination WHERE paused"));
  expect_nothing_lost(*clone, {});
}

// Somebody holds a transaction open in which he has written: anchor gives way again and again, and then up, so that the
// others' writes never wait for it.
TEST_F(AnchorTest, ALogInUseIsLeftAloneAndNobodyWaits) {
  make_history();
  const std::string copy_url = restored_on(young_server());
  const auto copy = postgres_store({.url = copy_url});
  Sql holder(copy_url + "?application_name=holder");
  holder("BEGIN");
  put(holder, "open");
  auto anchoring = std::async(std::launch::async, [&]() -> std::string {
    try {
      copy->upkeep()->anchor({.id = EventId::make()}, false);
      return "anchored";
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::retry, error.remedy());
      return error.what();
    }
  });
  Sql there(copy_url);
  there("SET lock_timeout = '3s'");
  while (anchoring.wait_for(10ms) != std::future_status::ready) put(there, "x");
  EXPECT_THAT(anchoring.get(), HasSubstr("in use by process " + holder("SELECT pg_backend_pid()") + " (holder)"));
  holder("COMMIT");
  EXPECT_TRUE(copy->upkeep()->anchor({.id = EventId::make()}, false).needed);
}

// Both lock destinations before leases.
TEST_F(AnchorTest, AnOperationUnderWayIsWaitedForAndNotKilled) {
  make_history();
  const std::string copy_url = restored_on(young_server());
  const auto copy = postgres_store({.url = copy_url});
  Sql person(copy_url);
  person("BEGIN; SELECT waybill.pause('out')");
  auto anchoring =
      std::async(std::launch::async, [&] { return copy->upkeep()->anchor({.id = EventId::make()}, false).needed; });
  Sql there(copy_url);
  ASSERT_TRUE(
      eventually([&] { return there("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") != "0"; }));
  EXPECT_EQ("", person.refusal("SELECT 1 FROM waybill.lease FOR UPDATE"));
  person("COMMIT");
  EXPECT_TRUE(anchoring.get());
}

// --- Copies of the whole server

class PromotionTest : public AnchorTest {
 protected:
  PromotionTest() : AnchorTest(own()) {}
  static TmpPostgres& own() {
    static TmpPostgres server;
    return server;
  }
  std::string url_on(const TmpPostgres& other) { return other.url(app("SELECT current_database()")); }
};

TEST_F(PromotionTest, Row16_18_APromotedStandbyIsNoticed) {
  make_history();
  StandbyOf standby(server, app("SELECT current_database()"));
  const std::string there_url = url_on(standby.server());
  standby.promote();
  const auto stopping = postgres_store({.url = there_url});
  EXPECT_THAT(why_unreadable(*stopping), HasSubstr("timeline 2, it was on 1"));
  EXPECT_THAT(why_unreadable(*stopping), HasSubstr("failover = \"continue\""));

  const auto going_on = postgres_store({.url = there_url, .failover = Failover::go_on});
  EXPECT_EQ("", why_unreadable(*going_on));
  EXPECT_EQ("", why_unreadable(*stopping)) << "it was noted";
  expect_nothing_lost(*going_on, {});
  // The former primary comes back, under the name it had.
  EXPECT_EQ("", why_unreadable(*store));
  const auto both = postgres_store({.url = "host=127.0.0.1,127.0.0.1 port=" + std::to_string(standby.port()) + "," +
                                           std::to_string(server.port()) +
                                           " user=postgres dbname=" + app("SELECT current_database()")});
  EXPECT_EQ("", why_unreadable(*both));
  standby.server().crash();
  EXPECT_THAT(why_unreadable(*both), HasSubstr("a former primary"));
  standby.server().start();
}

// The standby is asynchronous: what the primary committed last died with it, though it was published.
class LostTailTest : public PromotionTest {
 protected:
  LostTailTest() {
    make_history();
    standby_.catch_up();
  }

  StandbyOf standby_{server, app("SELECT current_database()")};
  const std::string there_url_ = url_on(standby_.server());
  Sql& there_ = standby_.sql();
};

TEST_F(LostTailTest, Row16_33_AStandbyThatLostTheTailIsNoticedAndGoesOnWithWhatItHas) {
  standby_.cut();
  std::map<std::string, std::set<std::string>> owed;
  for (const char* destination : {"out", "slow", "new"}) owed[destination] = names_in(rest(*store, destination));
  write(app, 30);
  Reader out(*store, "out");
  out.read_all();
  out.settle_all();
  app.burn(1'000);
  standby_.take_over();

  const auto promoted = postgres_store({.url = there_url_});
  EXPECT_THAT(why_unreadable(*promoted), HasSubstr("timeline 2, it was on 1"));
  const int before = next_;
  write(there_, 20);  // With numbers that the primary had given to others.
  EXPECT_THAT(why_unreadable(*promoted), HasSubstr("timeline 2, it was on 1"));
  EXPECT_TRUE(promoted->upkeep()->anchor({.id = EventId::make()}, false).needed);
  for (auto& [destination, names] : owed) {
    SCOPED_TRACE(destination);
    for (int i = before + 1; i <= next_; ++i) names.insert("k" + std::to_string((i - 1) % 7) + "/" + std::to_string(i));
    const auto events = rest(*promoted, destination);
    EXPECT_EQ(names, names_in(events));
    expect_order(events);
  }
}

// A relay that lives through it, and may go on by itself.
TEST_F(LostTailTest, Row16_ARelayThatLivesThroughItGoesOnWithWhatTheStandbyHas) {
  const auto either = postgres_store(
      {.url = "host=127.0.0.1,127.0.0.1 port=" + std::to_string(server.port()) + "," + std::to_string(standby_.port()) +
              " target_session_attrs=read-write user=" + "postgres dbname=" + app("SELECT current_database()"),
       .failover = Failover::go_on});
  std::mutex mutex;
  std::vector<Reader::Seen> delivered;
  Relay relay(*either, {.name = "test", .lease = 1s});
  relay.add({.name = "live"}, sink_from([&](const EventView& event) {
              const std::lock_guard lock(mutex);
              delivered.push_back({.shard = event.shard,
                                   .seq = event.seq,
                                   .name = std::string(event.payload.substr(1, event.payload.size() - 2)),
                                   .key = std::string(event.key)});
              return Outcome::Kind::delivered;
            }));
  const auto has = [&](const std::vector<std::string>& names) {
    const std::lock_guard lock(mutex);
    std::set<std::string> seen;
    for (const auto& event : delivered) seen.insert(event.name);
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return seen.contains(name); });
  };
  const std::string log = "SELECT payload #>> '{}' FROM waybill.event";
  std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  ASSERT_TRUE(eventually([&] { return has(app.column(log)); }, 30s));
  standby_.catch_up();
  standby_.cut();
  write(app, 30);
  ASSERT_TRUE(eventually([&] { return has(app.column(log)); }, 30s));
  standby_.take_over();
  write(there_, 50);
  EXPECT_TRUE(eventually([&] { return has(there_.column(log)); }, 60s));
  running.request_stop();
  running.join();
  // First deliveries, also of what exists no more.
  std::set<std::string> seen;
  std::vector<Reader::Seen> firsts;
  for (const auto& event : delivered)
    if (seen.insert(event.name).second) firsts.push_back(event);
  expect_order(firsts);
}

// --- A new server, by pg_upgrade

class UpgradeTest : public AnchorTest {
 protected:
  UpgradeTest() : AnchorTest(own()) {}
  static TmpPostgres& own() {
    static TmpPostgres server;
    return server;
  }
};

TEST_F(UpgradeTest, Row33_AnUpgradedServerIsNoticedAndGoesOnWithoutALoss) {
  make_history();
  const std::string name = app("SELECT current_database()");
  const TmpPostgres upgraded(TmpPostgres::Upgrade{server});
  const std::string there_url = upgraded.url(name);
  server.start();
  app = Sql(url);
  const auto there = postgres_store({.url = there_url});
  EXPECT_THAT(why_unreadable(*there), HasSubstr("waybill anchor --dry-run"));
  Sql application(there_url);
  const int before = next_;
  write(application, 20);
  const Anchored anchored = there->upkeep()->anchor({.id = EventId::make()}, false);
  EXPECT_TRUE(anchored.needed);
  EXPECT_THAT(anchored.found, HasSubstr("another cluster"));
  EXPECT_EQ(3, application.number("SELECT count(*) FROM waybill.destination WHERE paused"));
  std::set<std::string> written_there;
  for (int i = before + 1; i <= next_; ++i)
    written_there.insert("k" + std::to_string((i - 1) % 7) + "/" + std::to_string(i));
  expect_nothing_lost(*there, written_there);
}

TEST_F(PromotionTest, ABackupOfAnEarlierTimeGoesOnFromThere) {
  make_history();
  const auto settled = rest(*store, "out");
  TmpPostgres backup(TmpPostgres::Backup{server});
  const std::string there_url = url_on(backup);
  // The backup knows nothing of this.
  write(app, 10);
  Reader out(*store, "out");
  out.read_all();
  out.settle_all();
  backup.start();
  ASSERT_TRUE(eventually([&] { return Sql(there_url)("SELECT pg_is_in_recovery()") == "f"; }));
  const auto restored = postgres_store({.url = there_url});
  EXPECT_THAT(why_unreadable(*restored), HasSubstr("timeline"));
  const auto anchored = restored->upkeep()->anchor({.id = EventId::make()}, false);
  EXPECT_THAT(anchored.found, HasSubstr("a backup restored"));
  EXPECT_EQ(names_in(settled), names_in(rest(*restored, "out")));
}

TEST_F(PromotionTest, ARelaysUserMayNoteTheTimeline) {
  TmpPostgres standby(TmpPostgres::Standby{server});
  standby.start();
  Sql there(url_on(standby));
  there("SELECT pg_promote()");
  there(
      "DO $$ BEGIN CREATE USER only_relay; EXCEPTION WHEN duplicate_object THEN NULL; END $$; GRANT waybill_relay TO "
      "only_relay");
  const auto store_there =
      postgres_store({.url = standby.url(app("SELECT current_database()"), "only_relay"), .failover = Failover::go_on});
  EXPECT_EQ("", why_unreadable(*store_there));
  EXPECT_EQ("2", there("SELECT timeline FROM waybill.identity"));
}

}  // namespace
}  // namespace waybill
