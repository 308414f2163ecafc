// What the inbox does on PostgreSQL: in SQL, and between transactions.

#include "waybill/inbox.h"

#include <atomic>
#include <barrier>
#include <future>
#include <thread>
#include <utility>

#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

class InboxTest : public PostgresTest {
 protected:
  bool somebody_waits() {
    return app("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = "
               "current_database()") != "0";
  }
};

TEST_F(InboxTest, InSql) {
  EXPECT_EQ("t", app("SELECT waybill.first_time('billing', 'm-1')"));
  EXPECT_EQ("f", app("SELECT waybill.first_time('billing', 'm-1')"));
  EXPECT_EQ("f", app("SELECT waybill.first_time(message_id => 'm-1', consumer => 'billing', tenant => 'default')"));
  EXPECT_EQ("t", app("SELECT waybill.first_time('mailing', 'm-1')"));
  EXPECT_EQ("t", app("SELECT waybill.first_time('billing', 'm-1', 'north')"));
  EXPECT_EQ("f", app("BEGIN; SET LOCAL waybill.tenant = 'north'; SELECT waybill.first_time('billing', 'm-1')"));
  app("ROLLBACK; BEGIN; SELECT waybill.first_time('billing', 'm-2'); ROLLBACK");
  EXPECT_EQ("t", app("SELECT waybill.first_time('billing', 'm-2')"));
}

TEST_F(InboxTest, InSqlNamesHaveLimits) {
  EXPECT_EQ("23514", app.refusal("SELECT waybill.first_time('', 'm')"));
  EXPECT_EQ("23514", app.refusal("SELECT waybill.first_time('c', '')"));
  EXPECT_EQ("23514", app.refusal("SELECT waybill.first_time('c', repeat('x', 513))"));
  EXPECT_EQ("23514", app.refusal("SELECT waybill.first_time('c', 'm', repeat('x', 256))"));
  EXPECT_EQ("23502", app.refusal("SELECT waybill.first_time('c', NULL)"));
  EXPECT_EQ("t", app("SELECT waybill.first_time(repeat('ä', 127), repeat('ä', 256))")) << "bytes are counted";
}

// Whoever has waited cannot see, above READ COMMITTED, what he has waited for: he begins again, and sees it.
TEST_F(InboxTest, Row84_AboveReadCommittedWhoeverHasWaitedIsBegunAgain) {
  const Inbox inbox("billing");
  const auto one = waybill::connect(url);
  for (const Isolation isolation : {Isolation::repeatable_read, Isolation::serializable}) {
    const std::string message = isolation == Isolation::serializable ? "m-1" : "m-2";
    int handled = 0;
    Transaction first(*one);
    ASSERT_TRUE(inbox.first_time(*one, message));
    auto second = std::async(std::launch::async, [&] {
      const auto two = waybill::connect(url);
      return inbox.once(*two, message, [&](Connection&) { ++handled; }, {.transaction = {.isolation = isolation}});
    });
    ASSERT_TRUE(eventually([&] { return somebody_waits(); }, 30s));
    first.commit();
    EXPECT_FALSE(second.get());
    EXPECT_EQ(0, handled);
  }
}

// A rule for those who handle several messages in one transaction is broken: in the same order. One of the two is begun
// again, and nothing is lost or done twice.
TEST_F(InboxTest, Row23_84_ADeadlockIsBegunAgain) {
  app("CREATE TABLE effect (message text)");
  const Inbox inbox("billing");
  std::barrier both(2);
  std::atomic<int> attempts = 0;
  const auto handle_two = [&](const std::string& a, const std::string& b) {
    bool met = false;
    const auto line = waybill::connect(url);
    with_retries(*line, [&](Connection& db) {
      ++attempts;
      for (const std::string& message : {a, b}) {
        if (inbox.first_time(db, message)) db.run("INSERT INTO effect VALUES ($1)", message);
        if (!std::exchange(met, true)) both.arrive_and_wait();
      }
    });
  };
  {
    const std::jthread one([&] { handle_two("m-1", "m-2"); });
    const std::jthread two([&] { handle_two("m-2", "m-1"); });
  }
  EXPECT_GE(attempts, 3) << "they were in each other's way";
  EXPECT_EQ("m-1 m-2", app("SELECT string_agg(message, ' ' ORDER BY message) FROM effect"));
}

TEST_F(InboxTest, AnApplicationsOwnFunctionsAreNotAsked) {
  app("CREATE SCHEMA mine; CREATE FUNCTION mine.octet_length(text) RETURNS integer LANGUAGE plpgsql AS "
      "'BEGIN RAISE ''shadowed''; END'; SET search_path = mine, pg_catalog");
  EXPECT_EQ("P0001", app.refusal("SELECT octet_length('a'::text)")) << "the trap is set";
  EXPECT_EQ("t", app("SELECT waybill.first_time('billing', 'm-1')"));
  EXPECT_EQ("first", app("SELECT outcome FROM waybill.idempotency_begin('k', 'f')"));
}

}  // namespace
}  // namespace waybill
