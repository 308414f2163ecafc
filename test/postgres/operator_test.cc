// What people do: by the program or from psql, beside relays and beside each other.

#include <future>
#include <thread>

#include "base/waker.h"
#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* denied = "42501";
constexpr const char* refused = "22023";

class OperatorTest : public PostgresTest {
 protected:
  OperatorTest() : PostgresTest(1) {}

  // So many dead letters, each of a key of its own.
  void kill(int events) {
    app("INSERT INTO waybill.event (topic, payload, key) SELECT 'mail.' || n % 2, to_json(n), n::text FROM "
        "generate_series(1, " +
        std::to_string(events) + ") n");
    std::vector<Undelivered> rows;
    for (const auto& event : reader.read_all(1'000))
      rows.push_back({.seq = event.seq,
                      .key = static_cast<std::uint64_t>(event.seq) + 100,
                      .standing = Standing::dead,
                      .attempts = 12,
                      .error = "gone"});
    ASSERT_THAT(reader.pass(0, rows), IsEmpty());
  }

  std::string user_with(const std::string& role) {
    const std::string user = "only_" + role;
    app("DO $$ BEGIN CREATE USER " + user + "; EXCEPTION WHEN duplicate_object THEN NULL; END $$; GRANT waybill_" +
        role + " TO " + user);
    return server.url(app("SELECT current_database()"), user);
  }

  // What the store has against an edit; empty if nothing.
  std::string edit(const EventId& id, const Edit& how) {
    try {
      store->operate()->edit({.id = EventId::make()}, "out", id, how);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::fix_input, error.remedy()) << error.what();
      return error.what();
    }
  }

  std::int64_t count(const std::string& what) {
    return app.number("SELECT count(*) FROM waybill.undelivered WHERE " + what);
  }

  Reader reader{*store};
  const UndeliveredFilter all{.destination = "out"};
};

TEST_F(OperatorTest, Row81_TwoAtOnceRedriveEachEventOnce) {
  constexpr int events = 1'000;
  kill(events);
  const EventId shared = EventId::make();
  std::atomic<std::int64_t> redriven = 0;
  {
    std::vector<std::jthread> people;
    for (const EventId& id : {shared, shared, EventId::make(), EventId::make()})
      people.emplace_back([&, id] {
        const auto desk = store->operate();
        while (const std::int64_t some = desk->redrive({.id = id, .by = "me"}, all, 37)) redriven += some;
      });
  }
  EXPECT_EQ(events, redriven);
  EXPECT_EQ(events, count("standing = 'retrying' AND redrives = 1 AND attempts = 0"));
  EXPECT_EQ(events, app.number("SELECT sum(events) FROM waybill.operation"));
}

TEST_F(OperatorTest, Row81_WhatARelayIsWritingIsNotWaitedFor) {
  kill(3);
  Sql relay = connect();
  relay("BEGIN; UPDATE waybill.undelivered SET attempts = 1 WHERE seq = 2");
  const auto desk = store->operate();
  const Operation operation{.id = EventId::make()};
  EXPECT_EQ(2, desk->redrive(operation, all, 10));
  relay("COMMIT");
  EXPECT_EQ(1, desk->redrive(operation, all, 10));
}

// To return 0 would mean that all is done.
TEST_F(OperatorTest, WhereOnlyWhatSomebodyIsWritingIsLeftItIsWaitedFor) {
  kill(1);
  Sql other = connect();
  other("BEGIN; UPDATE waybill.undelivered SET attempts = 1");
  auto redriven =
      std::async(std::launch::async, [&] { return store->operate()->redrive({.id = EventId::make()}, all, 10); });
  EXPECT_TRUE(eventually([&] {
    return redriven.wait_for(0s) == std::future_status::ready ||
           app("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waybill operator' AND wait_event_type "
               "= "
               "'Lock'") == "1";
  }));
  other("COMMIT");
  EXPECT_EQ(1, redriven.get());
}

TEST_F(OperatorTest, AFilterTouchesNothingElse) {
  kill(10);
  const auto desk = store->operate();
  EXPECT_EQ(5, desk->count({.destination = "out", .topic = "mail.1"}));
  EXPECT_EQ(10, desk->count({.topic = "mail.*", .error = "go*"}));
  EXPECT_EQ(0, desk->count({.topic = "mail._"})) << "only * is special";
  EXPECT_EQ(0, desk->count({.destination = "out", .until = system_clock().now() - 1h}));
  EXPECT_EQ(1, desk->count({.destination = "out", .key = "7"}));
  EXPECT_EQ(2, desk->dismiss({.id = EventId::make()}, {.destination = "out", .topic = "mail.1", .before_seq = 5}, 10));
  EXPECT_EQ(5, desk->redrive({.id = EventId::make()}, {.destination = "out", .type = "*.0", .tenant = "default"}, 10));
  EXPECT_EQ(3, desk->dismiss({.id = EventId::make()}, {.destination = "out", .standings = {Standing::dead}}, 10));
  EXPECT_EQ(5, count("standing = 'dismissed'"));
}

// Redriven, an event of a key that stayed blocked goes before those that wait behind it.
TEST_F(OperatorTest, WhatBlocksItsKeyStaysAtItsHead) {
  for (const char* name : {"a", "b", "c"}) put(name);
  reader.read_all();
  ASSERT_THAT(reader.pass(0, {{.seq = 1, .key = 7, .standing = Standing::dead, .blocks = true},
                              {.seq = 2, .key = 7, .standing = Standing::blocked, .blocks = true}}),
              IsEmpty());
  silence(reader);
  Reader second(*store);
  EXPECT_EQ(std::nullopt, second.opened.at(0).blocked.at(0).wait) << "not by itself";
  store->operate()->redrive({.id = EventId::make()}, all, 10);
  EXPECT_EQ("ab", second.fetched(7));
  EXPECT_EQ(1, second.last_fetched.items[0].event.redrives);
}

TEST_F(OperatorTest, AnEditIsHeldToTheLimits) {
  kill(1);
  Event bytes;
  bytes.topic = "raw";
  bytes.payload_bytes = "x";
  const EventId raw = enqueue(app.raw(), bytes);
  reader.read_all();
  ASSERT_THAT(reader.pass(0, {{.seq = 2, .standing = Standing::held}}), IsEmpty());
  const auto json = EventId::parse(app("SELECT id FROM waybill.undelivered WHERE seq = 1")).value();
  const auto desk = store->operate();
  EXPECT_THAT(edit(json, {.payload = "[1"}), HasSubstr("json"));
  EXPECT_THAT(edit(json, {.payload = "\xff"}), HasSubstr("UTF8"));
  EXPECT_THAT(edit(json, {.payload = '"' + std::string(800'000, 'x') + '"'}), HasSubstr("786432"));
  EXPECT_THAT(edit(json, {.headers = "[]"}), HasSubstr("headers must be"));
  EXPECT_THAT(edit(json, {.headers = R"({"a": 1})"}), HasSubstr("headers must be"));
  EXPECT_EQ("0", app("SELECT count(*) FROM waybill.operation"));
  EXPECT_EQ("", edit(json, {.payload = "{\"a\": 1.0}"}));
  EXPECT_EQ("", edit(json, {.headers = R"({"h": "v"})"}));
  const std::string any("\0\xff\\", 3);
  EXPECT_EQ("", edit(raw, {.payload = any}));
  EXPECT_EQ(2, desk->redrive({.id = EventId::make()}, all, 10));
  reader.fetched(101);
  EXPECT_EQ("{\"a\": 1.0}", reader.last_fetched.items.at(0).event.payload);
  EXPECT_EQ(R"({"h": "v"})", reader.last_fetched.items.at(0).event.headers);
  reader.fetched(0);
  EXPECT_EQ(any, reader.last_fetched.items.at(0).event.payload);
  EXPECT_EQ("x", store->inspector()->find(raw)->event.payload) << "the original is kept";
}

TEST_F(OperatorTest, Security8_AnOperationIsRecordedAndIsOneThingOnly) {
  kill(2);
  const auto desk = store->operate();
  const Operation operation{.id = EventId::make(), .by = "ann"};
  EXPECT_EQ(2, desk->redrive(operation, {.destination = "out", .topic = "mail*"}, 10));
  EXPECT_THROW(desk->dismiss(operation, all, 10), Error);
  EXPECT_THROW(desk->pause({.id = EventId::make()}, "nowhere", true), Error);
  EXPECT_THROW(desk->redrive({.id = EventId::make()}, {}, 10), Error) << "no destination";
  const auto history = desk->history(10);
  ASSERT_THAT(history, SizeIs(1));
  EXPECT_EQ(operation.id, history[0].id);
  EXPECT_EQ("ann", history[0].by);
  EXPECT_EQ("out", history[0].destination);
  EXPECT_EQ(R"({"topic": "mail*"})", history[0].details);
  EXPECT_EQ("postgres", app("SELECT login FROM waybill.operation"));
  // Repeated, because its answer was lost, a pause does not undo what came after it.
  const Operation pause{.id = EventId::make()};
  desk->pause(pause, "out", true);
  desk->pause({.id = EventId::make()}, "out", false);
  desk->pause(pause, "out", true);
  EXPECT_FALSE(store->inspector()->status().destinations.at(0).paused);
}

TEST_F(OperatorTest, ARelayThatWaitsIsTold) {
  Waker waker;
  reader.membership->wait(waker, std::chrono::steady_clock::now());
  store->operate()->pause({.id = EventId::make()}, "out", true);
  EXPECT_EQ(Membership::Told::leases, reader.membership->wait(waker, std::chrono::steady_clock::now() + 5s));
}

TEST_F(OperatorTest, OperatorsNeedNothingButPsql) {
  kill(4);
  Sql user(user_with("operator"));
  user("CREATE TEMP TABLE undelivered (LIKE pg_class); CREATE TEMP TABLE operation (id uuid)");
  user("SET search_path = pg_temp, waybill, pg_catalog; SET synchronous_commit = off");
  EXPECT_EQ("2", user("SELECT waybill.redrive('out', topic => 'mail.1')"));
  EXPECT_EQ("1", user("SELECT waybill.dismiss('out', most => 1)"));
  EXPECT_EQ("",
            user("SELECT waybill.edit('out', (SELECT id FROM waybill.undelivered WHERE standing = 'dead'), payload => "
                 "'{\"a\": 1}')"));
  EXPECT_EQ("", user("SELECT waybill.pause('out')"));
  EXPECT_EQ("t", user("SELECT paused FROM waybill.destination"));
  EXPECT_EQ("", user("SELECT waybill.resume('out')"));
  EXPECT_EQ("4", user("SELECT events FROM waybill.rewind('out')")) << "dry, unless told otherwise";
  EXPECT_EQ(reader.leases.at(0).term, app.number("SELECT term FROM waybill.lease"));
  EXPECT_EQ("4", user("SELECT events FROM waybill.rewind('out', dry => false)"));
  EXPECT_EQ(refused, user.refusal("SELECT waybill.forget('out')")) << "a relay serves it";
  EXPECT_EQ("only_operator", app("SELECT DISTINCT by FROM waybill.operation WHERE login = 'only_operator'"));
  for (const char* table : {"undelivered", "kept", "attempt", "operation", "lease", "cursor", "destination"}) {
    EXPECT_EQ("", user.refusal(std::string("SELECT 1 FROM waybill.") + table)) << table;
    EXPECT_EQ(denied, user.refusal(std::string("DELETE FROM waybill.") + table)) << table;
  }
  EXPECT_EQ(denied, user.refusal("UPDATE waybill.undelivered SET attempts = 0"));
  EXPECT_EQ(denied, user.refusal("SELECT waybill.begin_operation(waybill.new_id(), 'pause', 'x', 'out', '{}')"));
  EXPECT_EQ(denied,
            user.refusal("SELECT waybill.lock_undelivered('out', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
                         "NULL, NULL, NULL, NULL, NULL, 1)"));
}

TEST_F(OperatorTest, OthersMayNotOperate) {
  kill(1);
  for (const char* role : {"enqueue", "relay", "reader"}) {
    Sql user(user_with(role));
    for (const char* call : {"redrive('out')", "dismiss('out')", "edit('out', NULL)", "pause('out')", "resume('out')",
                             "rewind('out')", "forget('out')"})
      EXPECT_EQ(denied, user.refusal(std::string("SELECT waybill.") + call)) << role << ' ' << call;
    EXPECT_EQ(denied, user.refusal("DELETE FROM waybill.operation")) << role;
    EXPECT_EQ(denied, user.refusal("UPDATE waybill.kept SET topic = 'u'")) << role;
    EXPECT_EQ(denied, user.refusal("DELETE FROM waybill.attempt")) << role;
    EXPECT_EQ(denied, user.refusal("UPDATE waybill.destination SET paused = true")) << role;
  }
  EXPECT_EQ(denied, Sql(user_with("enqueue")).refusal("SELECT 1 FROM waybill.undelivered"));
  EXPECT_EQ(denied, Sql(user_with("reader")).refusal("DELETE FROM waybill.undelivered"));
  const auto users = postgres_store({.url = user_with("reader")});
  EXPECT_THAT(users->inspector()->undelivered({}).events, SizeIs(1));
  EXPECT_THAT(users->inspector()->blocked_keys("out", 10), IsEmpty());
  EXPECT_EQ(1, users->inspector()->status().destinations.at(0).undelivered.at(Standing::dead).value);
}

// All that a session does with undelivered events, with the rights of the role.
TEST_F(OperatorTest, ARelaysRoleIsEnoughForItsRows) {
  for (const char* name : {"a", "b", "c"}) put(name);
  silence(reader);
  const auto users = postgres_store({.url = user_with("relay")});
  Reader second(*users);
  second.read_all();
  ASSERT_THAT(second.pass(0, {{.seq = 1, .key = 7, .blocks = true},
                              {.seq = 2, .key = 7, .blocks = true},
                              {.seq = 3, .key = 7, .blocks = true}}),
              IsEmpty());
  Settlement settlement = second.change(0);
  settlement.delivered = {1};
  settlement.undelivered = {{.seq = 2, .key = 7, .standing = Standing::dead}};
  settlement.buried_keys = {7};
  settlement.attempts = {
      {.seq = 2, .number = 1, .at = system_clock().now(), .outcome = Outcome::Kind::rejected, .error = "x"}};
  EXPECT_THAT(second.session->exchange(std::span(&settlement, 1), {}).lost, IsEmpty());
  EXPECT_EQ("", second.fetched(7));
  EXPECT_EQ(2, count("standing = 'dead'"));
  second.leave();
}

}  // namespace
}  // namespace waybill
