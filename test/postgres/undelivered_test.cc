// Undelivered events in PostgreSQL: under the fence of their settlement, and kept when they die.

#include <future>
#include <mutex>
#include <set>

#include "waybill/relay.h"
#include "waybill/sink.h"

#include "postgres/postgres_fixture.h"
#include "support/wrong_clock.h"

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t k = ~std::uint64_t{76};  // Does not fit into a bigint as it is.

class UndeliveredTest : public PostgresTest {
 protected:
  UndeliveredTest() : PostgresTest(1) {}

  // Reads what there is and passes it with these rows, the first for the first event.
  static void pass(Reader& reader, std::vector<Undelivered> rows) {
    const auto events = reader.read_all();
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].seq = events.at(i).seq;
    ASSERT_THAT(reader.pass(0, rows), IsEmpty());
  }

  // seq, standing and attempts of each row, and the number of attempts recorded.
  std::string rows() {
    return app("SELECT coalesce(string_agg(seq || ' ' || standing || ' ' || attempts, ', ' ORDER BY seq), '') FROM "
               "waybill.undelivered") +
           "; " + app("SELECT count(*) FROM waybill.attempt");
  }

  // Empties the log, as cleaning does with a slot.
  void empty_log() { app("TRUNCATE waybill.event"); }

  const Undelivered retrying{.key = k, .blocks = true, .attempts = 1};
  const Undelivered blocked{.key = k, .standing = Standing::blocked, .blocks = true};
  const Undelivered dead{.key = k, .standing = Standing::dead, .attempts = 12};
};

TEST_F(UndeliveredTest, Row73_AnOldTermChangesNothing) {
  for (const char* name : {"a", "b", "c"}) put(name);
  Reader zombie(*store);
  pass(zombie, {retrying, blocked});
  silence(zombie);
  Reader successor(*store);
  const std::string before = rows();
  Settlement settlement = zombie.change(0);
  settlement.undelivered = {{.seq = 1, .key = k, .standing = Standing::dead}, {.seq = 3, .key = k, .blocks = true}};
  settlement.delivered = {2};
  settlement.buried_keys = {k};
  settlement.attempts = {{.seq = 1, .number = 2, .outcome = Outcome::Kind::retry, .error = "x"}};
  EXPECT_THAT(zombie.session->exchange(std::span(&settlement, 1), {}).lost, ElementsAre(0));
  EXPECT_EQ(before, rows());
  settlement.term = successor.leases.at(0).term;  // Nor does one that has guessed the term.
  zombie.session->exchange(std::span(&settlement, 1), {});
  EXPECT_EQ(before, rows());
  EXPECT_EQ("ab", successor.fetched(k));
}

// A settlement that leaves the cursor where it is holds the fence, too.
TEST_F(UndeliveredTest, ATakeOverDoesNotPassRowsUnderWay) {
  put("a");
  Reader zombie(*store);
  pass(zombie, {retrying});
  app("CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(42); RETURN "
      "OLD; "
      "END'; CREATE TRIGGER wait BEFORE DELETE ON waybill.undelivered FOR EACH ROW EXECUTE FUNCTION wait()");
  Sql blocker = connect();
  blocker("SELECT pg_advisory_lock(42)");
  Settlement settlement = zombie.change(0);
  settlement.delivered = {1};
  auto exchange =
      std::async(std::launch::async, [&] { return zombie.session->exchange(std::span(&settlement, 1), {}); });
  ASSERT_TRUE(eventually([&] { return app.number("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1; }));
  silence(zombie);
  const auto membership = store->join({.id = "successor", .name = "successor"});
  EXPECT_THAT(membership->take(zombie.leases), IsEmpty());
  blocker("SELECT pg_advisory_unlock(42)");
  EXPECT_THAT(exchange.get().lost, IsEmpty());
  EXPECT_THAT(membership->take(zombie.leases), SizeIs(1));
  EXPECT_EQ("; 0", rows());
}

TEST_F(UndeliveredTest, RelaysThatDieWithoutGettingAnywhereAreCounted) {
  put("a");
  put("b");
  const auto crashes = [](const Reader& reader) { return reader.opened.at(0).crashes; };
  Reader first(*store);
  EXPECT_EQ(0, crashes(first));
  silence(first);
  Reader second(*store);
  EXPECT_EQ(1, crashes(second));
  auto again = store->connect(second.relay, "out");
  second.leases = {again->open(second.leases, Start::beginning, true).at(0).lease};
  second.session = std::move(again);
  silence(second);
  Reader third(*store);
  EXPECT_EQ(2, crashes(third)) << "a connection of its own that broke is no crash";
  third.read_all(1);
  third.settle({{0, 1}});
  silence(third);
  Reader fourth(*store);
  EXPECT_EQ(0, crashes(fourth)) << "it got somewhere";
  silence(fourth);
  Reader fifth(*store);
  EXPECT_EQ(1, crashes(fifth));
  fifth.leave();
  Reader sixth(*store);
  EXPECT_EQ(0, crashes(sixth)) << "it has given the lease back";
}

TEST_F(UndeliveredTest, Row10_WhatDiesIsKept) {
  put("a");
  Event large = make_event(std::string(100'000, 'x'));
  large.metadata = R"({"m": 1})";
  const EventId id = enqueue(app.raw(), large);
  put("c");
  Reader reader(*store);
  pass(reader, {dead, blocked, blocked});
  EXPECT_EQ("1", app("SELECT count(*) FROM waybill.kept"));
  Settlement settlement = reader.change(0);
  settlement.buried_keys = {k};
  reader.session->exchange(std::span(&settlement, 1), {});
  EXPECT_EQ("3", app("SELECT count(*) FROM waybill.kept"));
  EXPECT_EQ("1 dead 12, 2 dead 0, 3 dead 0; 0", rows());

  empty_log();
  const auto inspector = store->inspector();
  EXPECT_THAT(inspector->undelivered({.destination = "out"}).events, SizeIs(3));
  const auto story = inspector->find(id);
  ASSERT_TRUE(story);
  EXPECT_EQ(*large.payload, story->event.payload);
  EXPECT_EQ("dead", story->destinations.at(0).state);
  EXPECT_EQ(3, store->operate()->redrive({.id = EventId::make()}, {.destination = "out", .topic = "t"}, 10));
  reader.fetched(k);
  ASSERT_THAT(reader.last_fetched.items, SizeIs(3));
  EventView& event = reader.last_fetched.items[1].event;
  EXPECT_TRUE(event.payload_deferred);
  const auto memory = reader.session->load(event);
  EXPECT_EQ(*large.payload, event.payload);
  EXPECT_EQ(large.metadata, event.metadata);
  // It lives on in `undelivered` although it is gone from the log.
  settlement = reader.change(0);
  settlement.undelivered = {reader.last_fetched.items[0].row};
  settlement.undelivered[0].attempts = 5;
  reader.session->exchange(std::span(&settlement, 1), {});
  EXPECT_EQ("1 retrying 5, 2 retrying 0, 3 retrying 0; 0", rows());
}

// A row whose event somebody has deleted is found to be so, and can be written all the same.
TEST_F(UndeliveredTest, AnEventThatIsGoneIsNotPassedOverInSilence) {
  for (const char* name : {"a", "b"}) put(name);
  Reader reader(*store);
  const auto events = reader.read_all();
  const std::string id = app("SELECT id FROM waybill.event WHERE seq = " + std::to_string(events.at(0).seq));
  std::vector<Undelivered> rows{retrying, blocked};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].seq = events.at(i).seq;
  app("DELETE FROM waybill.event WHERE seq = " + std::to_string(events.at(1).seq));
  ASSERT_THAT(reader.pass(0, rows), IsEmpty()) << "though one was deleted before";
  empty_log();
  const Wanted wanted{.key = k, .events_max = 10};
  const Fetched fetched = reader.session->fetch(std::span(&wanted, 1));
  ASSERT_THAT(fetched.items, SizeIs(2));
  for (const auto& item : fetched.items) EXPECT_TRUE(item.missing);
  EXPECT_EQ(id, fetched.items[0].event.id.to_string());
  Settlement settlement = reader.change(0);
  settlement.undelivered = {fetched.items[0].row};
  settlement.undelivered[0].standing = Standing::held;
  EXPECT_THAT(reader.session->exchange(std::span(&settlement, 1), {}).lost, IsEmpty());
  const auto listed = store->inspector()->undelivered({.standings = {Standing::held}}).events;
  ASSERT_THAT(listed, SizeIs(1));
  EXPECT_EQ(id, listed[0].event.id.to_string());
}

// One row without its event stops nobody: it waits for a person, who may dismiss it, and everything else flows.
TEST_F(UndeliveredTest, ARowWithoutItsEventIsHeldAndTheOthersFlow) {
  for (const char* name : {"a", "b"}) put(name);
  std::set<std::string> failing{"\"a\"", "\"b\""};
  std::mutex mutex;
  std::vector<std::string> sent;
  std::stop_source stop;
  Relay relay(*store, {.name = "test"});
  relay.add({.name = "out", .retry = {.first_delay = 100ms, .max_delay = 100ms}},
            sink_from([&](const EventView& event) {
              const std::lock_guard lock(mutex);
              if (failing.contains(std::string(event.payload))) return Outcome::Kind::retry;
              sent.emplace_back(event.payload);
              return Outcome::Kind::delivered;
            }));
  std::jthread running([&] { relay.run(stop.get_token()); });
  ASSERT_TRUE(eventually([&] { return app("SELECT count(*) FROM waybill.undelivered") == "2"; }));
  app("DELETE FROM waybill.event WHERE payload::text = '\"a\"'");
  ASSERT_TRUE(
      eventually([&] { return app("SELECT count(*) FROM waybill.undelivered WHERE standing = 'held'") == "1"; }));
  {
    const std::lock_guard lock(mutex);
    failing.clear();
  }
  put("c");
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return sent.size() == 2;
  }));
  EXPECT_TRUE(eventually([&] { return app("SELECT string_agg(standing, ' ') FROM waybill.undelivered") == "held"; }));
  EXPECT_THAT(app("SELECT error FROM waybill.undelivered"), testing::HasSubstr("neither in the log nor kept"));
  EXPECT_EQ("1", app("SELECT waybill.dismiss('out')"));
  stop.request_stop();
  running.join();
}

// The server's clock decides what is due and what has expired, whatever the relay's machine takes for the time.
TEST_F(UndeliveredTest, Row76_TimesAreJudgedByTheServersClock) {
  for (const auto wrong : {1h, -1h}) {
    app("TRUNCATE waybill.undelivered");
    app("INSERT INTO waybill.event (topic, payload, not_before, expires_at) VALUES "
        "('t', '\"good\"', NULL, now() + interval '30 min'), ('t', '\"later\"', now() + interval '30 min', NULL), "
        "('t', '\"late\"', NULL, now() - interval '1 min'), ('t', '\"due\"', now() - interval '1 min', NULL)");
    const WrongClock clock(wrong);
    std::vector<std::string> sent;
    std::stop_source stop;
    Relay relay(*store, {.name = "test"}, {}, clock);
    relay.add({.name = "out"}, sink_from([&](const EventView& event) {
                sent.emplace_back(event.payload);
                return Outcome::Kind::delivered;
              }));
    std::jthread running([&] { relay.run(stop.get_token()); });
    EXPECT_TRUE(eventually([&] { return app("SELECT count(*) FROM waybill.undelivered") == "2"; }));
    EXPECT_TRUE(eventually([&] { return relay.counts("out").delivered == 2; }));
    stop.request_stop();
    running.join();
    EXPECT_THAT(sent, testing::UnorderedElementsAre("\"good\"", "\"due\""));
    EXPECT_THAT(app.column("SELECT standing FROM waybill.undelivered ORDER BY seq"),
                ElementsAre("scheduled", "expired"));
    EXPECT_EQ(1U, relay.counts("out").expired);
  }
}

// A timestamp reaches to the year 294276, and to infinity; a clock of ours to the year 9999, or only 292 years from
// now.
TEST_F(UndeliveredTest, TimesBeyondOurClocksAreAsGoodAsTheirEnds) {
  app("INSERT INTO waybill.event (topic, payload, not_before, expires_at, occurred_at) VALUES "
      "('t', '\"a\"', now() + '365 d', 'infinity', '-infinity'), ('t', '\"b\"', now() + '365 d', '290000-01-01', "
      "'4000-01-01 BC'),"
      "('t', '\"c\"', '-infinity', NULL, 'infinity'), ('t', '\"d\"', NULL, '-infinity', '2500-01-01')");
  const auto listed = store->inspector()->list({}).events;
  ASSERT_THAT(listed, SizeIs(4));
  const Time end = std::chrono::sys_days(std::chrono::year(9999) / 12 / 31);
  const Time beginning = std::chrono::sys_days(std::chrono::year(1) / 1 / 1);
  for (const std::size_t late : {2U, 3U}) {
    EXPECT_EQ(end, listed[late].expires_at);
    EXPECT_EQ(beginning, listed[late].occurred_at);
  }
  EXPECT_EQ(beginning, listed[1].not_before);
  EXPECT_EQ(Time(std::chrono::sys_days(std::chrono::year(2500) / 1 / 1)), listed[0].occurred_at);

  std::vector<std::string> sent;
  std::stop_source stop;
  Relay relay(*store, {.name = "test"});
  relay.add({.name = "out"}, sink_from([&](const EventView& event) {
              sent.emplace_back(event.payload);
              return Outcome::Kind::delivered;
            }));
  std::jthread running([&] { relay.run(stop.get_token()); });
  EXPECT_TRUE(eventually([&] { return app("SELECT count(*) FROM waybill.undelivered") == "3"; }, 30s));
  stop.request_stop();
  running.join();
  EXPECT_THAT(sent, ElementsAre("\"c\""));
  EXPECT_EQ("scheduled scheduled expired",
            app("SELECT string_agg(standing, ' ' ORDER BY seq) FROM waybill.undelivered"));
  EXPECT_EQ(2, app.number("SELECT count(*) FROM waybill.undelivered WHERE due > clock_timestamp() + interval '1 day'"));
}

// What a destination says may be anything, and must not break the settlement.
TEST_F(UndeliveredTest, AnErrorMayBeAnyBytes) {
  for (const char* name : {"a", "b", "c", "d"}) put(name);
  Reader reader(*store);
  const std::string zero("nul \0 byte", 10);
  const std::string broken = "caf\xe9 \xed\xa0\x80 \xf0\x9f\x98\x80 \xc3";
  pass(reader,
       {{.error = zero}, {.error = broken}, {.error = std::string(1'999, 'x') + "ü and more"}, {.error = "\"{,}\\"}});
  EXPECT_THAT(app.column("SELECT error FROM waybill.undelivered ORDER BY seq"),
              ElementsAre("nul ? byte", "caf? ??? \xf0\x9f\x98\x80 ?", std::string(1'999, 'x'), "\"{,}\\"));
}

TEST_F(UndeliveredTest, MoreThanWasAskedForIsDueAtOnce) {
  for (const char* name : {"a", "b", "c"}) put(name);
  Reader reader(*store);
  pass(reader, {{.attempts = 1}, {.attempts = 1}, {.attempts = 1, .wait = 1h}});
  const auto fetch = [&](int most) {
    const Wanted wanted{.events_max = most};
    return reader.session->fetch(std::span(&wanted, 1));
  };
  EXPECT_THAT(fetch(1).items, SizeIs(1));
  EXPECT_EQ(0ms, fetch(1).next_due.at(0));
  EXPECT_THAT(fetch(3).items, SizeIs(2));
  EXPECT_GT(fetch(3).next_due.at(0), 59min);
}

TEST_F(UndeliveredTest, CountsBeyondTheLimitAreMarked) {
  app("INSERT INTO waybill.event (topic, payload, key) SELECT 't', '1', 'k' FROM generate_series(1, 10100)");
  Reader reader(*store);
  std::vector<Undelivered> many;
  for (const auto& event : reader.read_all(5'000)) {
    many.push_back(blocked);
    many.back().seq = event.seq;
  }
  many[0].standing = Standing::retrying;
  ASSERT_THAT(reader.pass(0, many), IsEmpty());
  const auto inspector = store->inspector();
  const DestinationStatus status = inspector->status().destinations.at(0);
  EXPECT_FALSE(status.undelivered.at(Standing::blocked).exact);
  EXPECT_TRUE(status.undelivered.at(Standing::retrying).exact);
  EXPECT_EQ(1, status.undelivered.at(Standing::retrying).value);
  EXPECT_EQ(1, status.blocked_keys.value);
  EXPECT_TRUE(status.blocked_keys.exact);
  const auto keys = inspector->blocked_keys("", 10);
  ASSERT_THAT(keys, SizeIs(1));
  EXPECT_FALSE(keys[0].events.exact);
  EXPECT_THAT(inspector->blocked_keys("other", 10), IsEmpty());
}

}  // namespace
}  // namespace waybill
