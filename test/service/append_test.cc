// What the event store does on PostgreSQL: in SQL, and between transactions.

#include <future>

#include "waybill/event_store.h"

#include "postgres/postgres_fixture.h"
#include "support/tcp_proxy.h"

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class AppendTest : public PostgresTest {
 protected:
  std::int64_t append(Connection& line, Expected expected, int count = 1) {
    return events.append(line, stream, expected, std::vector<Event>(static_cast<std::size_t>(count), make_event("a")));
  }
  std::vector<std::string> versions() {
    return app.column("SELECT version FROM waybill.stream_event ORDER BY position");
  }
  bool somebody_waits() {
    return app("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = "
               "current_database()") != "0";
  }

  const EventStore events;
  const StreamId stream{.type = "order", .id = "o-7"};
  const std::unique_ptr<Connection> one = waybill::connect(url);
  const std::unique_ptr<Connection> two = waybill::connect(url);
};

TEST_F(AppendTest, InSqlItReturnsTheNewVersion) {
  EXPECT_EQ("1", app(R"(SELECT waybill.append('order', 'o-7', 0, 'order.placed', '{"a": 1}'))"));
  EXPECT_EQ("2", app("SELECT waybill.append('order', 'o-7', 1, 'order.paid', payload_bytes => '\\x00', type => 'Paid', "
                     "metadata => '{}', tenant => 'default', schema_version => 2)"));
  EXPECT_EQ("3", app("SELECT waybill.append('order', 'o-7', NULL, 'order.sent', '1')")) << "whatever the version";
  EXPECT_THAT(app.column("SELECT version || ' ' || type FROM waybill.stream_event ORDER BY version"),
              ElementsAre("1 order.placed", "2 Paid", "3 order.sent"));
  EXPECT_EQ("3", app("SELECT count(*) FROM waybill.stream_event s JOIN waybill.event e USING (id, version, tenant, "
                     "aggregate_type, aggregate_id, topic)"));
}

TEST_F(AppendTest, InSqlAConflictHasACodeAndTheVersion) {
  app("SELECT waybill.append('order', 'o-7', 0, 'order.placed', '1')");
  for (const char* expected : {"0", "2"})
    EXPECT_EQ("WB409", app.refusal(std::string("SELECT waybill.append('order', 'o-7', ") + expected + ", 't', '1')"));
  app("DO $$ DECLARE actual text; BEGIN PERFORM waybill.append('order', 'o-7', 0, 't', '1'); "
      "EXCEPTION WHEN SQLSTATE 'WB409' THEN GET STACKED DIAGNOSTICS actual = PG_EXCEPTION_DETAIL; "
      "PERFORM waybill.append('order', 'o-7', actual::bigint, 't', '1'); END $$");
  EXPECT_THAT(versions(), ElementsAre("1", "2"));
  EXPECT_EQ("23514", app.refusal("SELECT waybill.append('order', 'o-7', 2, '', '1')")) << "the log's limits";
  EXPECT_EQ("23514", app.refusal("SELECT waybill.append('order', 'o-7', 2, 't')"));
  EXPECT_THAT(versions(), ElementsAre("1", "2"));
}

TEST_F(AppendTest, OfTwoAtOnceTheSecondWaitsAndGetsAConflict) {
  for (const bool first_commits : {true, false}) {
    const std::int64_t before = events.version(*one, stream);
    Transaction first(*one);
    append(*one, Expected::version(before), 2);
    auto second = std::async(std::launch::async, [&] {
      try {
        return append(*two, Expected::version(before), 3);
      } catch (const Conflict& conflict) {
        return -conflict.actual();
      }
    });
    ASSERT_TRUE(eventually([&] { return somebody_waits(); }, 30s));
    if (first_commits) {
      first.commit();
    } else {
      first.rollback();
    }
    EXPECT_EQ(first_commits ? -(before + 2) : before + 3, second.get());
  }
  EXPECT_THAT(versions(), ElementsAre("1", "2", "3", "4", "5"));
  EXPECT_THAT(app.column("SELECT version FROM waybill.event ORDER BY seq"), ElementsAre("1", "2", "3", "4", "5"));
}

TEST_F(AppendTest, WhoeverDoesNotMindTheVersionWaitsForHisTurn) {
  append(*one, Expected::none());
  Transaction first(*one);
  append(*one, Expected::any());
  auto second = std::async(std::launch::async, [&] { return append(*two, Expected::any(), 2); });
  ASSERT_TRUE(eventually([&] { return somebody_waits(); }, 30s));
  first.commit();
  EXPECT_EQ(4, second.get());
  // Beside one who minds: he has no lock, but the version.
  Transaction third(*one);
  append(*one, Expected::version(4));
  auto fourth = std::async(std::launch::async, [&] { return append(*two, Expected::any()); });
  ASSERT_TRUE(eventually([&] { return somebody_waits(); }, 30s));
  third.commit();
  EXPECT_EQ(6, fourth.get());
  EXPECT_THAT(versions(), ElementsAre("1", "2", "3", "4", "5", "6"));
}

TEST_F(AppendTest, AboveReadCommittedTheLoserIsBegunAgain) {
  int attempts = 0;
  const std::int64_t version = with_retries(*one,
                                            [&](Connection& line) {
                                              const std::int64_t seen = events.version(line, stream);
                                              if (++attempts == 1) append(*two, Expected::none());
                                              return append(line, Expected::version(seen));
                                            },
                                            {.transaction = {.isolation = Isolation::repeatable_read}});
  EXPECT_EQ(2, attempts);
  EXPECT_EQ(2, version);
}

// By itself, a statement is a transaction: so they can be counted.
TEST_F(AppendTest, AnAppendIsOneStatement) {
  append(*one, Expected::none());
  const auto transactions = [&] { return app.number("SELECT pg_current_xact_id()::text::bigint"); };
  const std::int64_t before = transactions();
  append(*one, Expected::version(1), 5);
  EXPECT_EQ(before + 2, transactions()) << "one for the append, one for having asked";
}

// Both answers are lost, that to COMMIT and the one with the transaction's number: whoever has written knows it
// already.
TEST_F(AppendTest, WhateverWasWrittenALostCommitIsFoundOut) {
  TcpProxy proxy(static_cast<std::uint16_t>(server.port()));
  const auto line =
      waybill::connect("postgresql://postgres@127.0.0.1:" + std::to_string(proxy.port()) + url.substr(url.rfind('/')));
  const std::vector<std::function<void()>> ways{
      [&] { append(*line, Expected::any(), 2); },
      [&] { enqueue(*line, make_event("a")); },
      [&] {
        enqueue(*line, std::vector{make_event("b"), make_event("c")});
      },
  };
  std::int64_t before = 0;
  for (const auto& way : ways) {
    with_retries(*line, [](Connection& db) { db.run("SELECT 1"); });
    Transaction transaction(*line);
    way();
    proxy.cut_after(0, Direction::to_client);
    auto commit = std::async(std::launch::async, [&] { transaction.commit(); });
    EXPECT_TRUE(eventually([&] { return app.number("SELECT count(*) FROM waybill.event") > before; }, 30s));
    proxy.pass();
    EXPECT_NO_THROW(commit.get());
    before = app.number("SELECT count(*) FROM waybill.event");
  }
  EXPECT_EQ(5, before);
}

TEST_F(AppendTest, TheNumberOfAnotherTransactionIsNotTakenForThisOnes) {
  TcpProxy proxy(static_cast<std::uint16_t>(server.port()));
  const auto line =
      waybill::connect("postgresql://postgres@127.0.0.1:" + std::to_string(proxy.port()) + url.substr(url.rfind('/')));
  with_retries(*line, [](Connection& db) { db.run("SELECT 1"); });
  append(*line, Expected::none());
  int round = 0;
  for (const auto& next : std::vector<std::function<void()>>{
           [&] { line->script("BEGIN"); },
           [&] {
             line->script("BEGIN");
             append(*line, Expected::version(1));
             line->script("ROLLBACK; BEGIN");
           },
           [&] {
             line->script("BEGIN");
             append(*line, Expected::version(1));
             line->run("ROLLBACK AND CHAIN");
           },
       }) {
    proxy.pass();
    if (!line->usable()) line->reopen();
    with_retries(*line, [](Connection& db) { db.run("SELECT 1"); });
    next();
    line->run("CREATE TABLE mine" + std::to_string(++round) + " (n int)");
    proxy.cut_after(0, Direction::to_client);  // The COMMIT may go down with it, too.
    auto commit = std::async(std::launch::async, [&] { line->commit(); });
    EXPECT_TRUE(eventually([&] { return proxy.connections() == 0; }, 30s));
    proxy.pass();
    try {
      commit.get();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::unknown, error.remedy()) << error.what();
    }
  }
}

TEST_F(AppendTest, AnApplicationsOwnFunctionsAreNotAsked) {
  app("CREATE SCHEMA mine; CREATE FUNCTION mine.coalesce_trap(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS "
      "'BEGIN RAISE ''shadowed''; END'; CREATE OPERATOR mine.<> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = "
      "mine.coalesce_trap); CREATE FUNCTION mine.cardinality(uuid[]) RETURNS integer LANGUAGE plpgsql AS "
      "'BEGIN RAISE ''shadowed''; END'");
  app("SET search_path = mine, pg_catalog");
  EXPECT_EQ("P0001", app.refusal("SELECT 1::bigint <> 2::bigint")) << "the trap is set";
  EXPECT_EQ("1", app("SELECT waybill.append('order', 'o-7', 0, 't', '1')"));
}

TEST_F(AppendTest, RetentionDoesNotTouchIt) {
  append(*one, Expected::none(), 3);
  app("TRUNCATE waybill.event");
  EXPECT_EQ(3U, events.load(*one, stream).size());
}

}  // namespace
}  // namespace waybill
