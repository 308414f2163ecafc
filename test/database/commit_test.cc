// The answer to COMMIT is lost. Was it committed?

#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/database.h"

#include "support/tcp_proxy.h"
#include "support/tmp_postgres.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

class LostAnswerTest : public testing::Test {
 protected:
  explicit LostAnswerTest(TmpPostgres& the_server = TmpPostgres::shared()) : server(the_server) {
    // A commit that takes long: a trigger that runs at its end and waits.
    watcher->script(
        "CREATE TABLE t (n int, wait double precision DEFAULT 0);"
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(NEW.wait); RETURN NULL; "
        "END';"
        "CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "
        "wait()");
  }

  std::unique_ptr<Connection> through_proxy() const {
    return connect("postgresql://postgres@127.0.0.1:" + std::to_string(proxy.port()) + url.substr(url.rfind('/')));
  }

  // Waits until a COMMIT is being carried out; the process that does it.
  std::int64_t committing() {
    while (true) {
      const Rows rows = watcher->run(
          "SELECT pid FROM pg_stat_activity WHERE query LIKE 'COMMIT%' AND state = 'active' AND wait_event = "
          "'PgSleep'");
      if (!rows.empty()) return rows.integer(0, 0);
      std::this_thread::sleep_for(5ms);
    }
  }

  std::int64_t count() { return watcher->run("SELECT count(*) FROM t").integer(0, 0); }

  static std::optional<Remedy> outcome(Transaction& transaction) {
    try {
      transaction.commit();
      return std::nullopt;
    } catch (const Error& error) {
      return error.remedy();
    }
  }

  TmpPostgres& server;
  const std::string url = server.fresh_database();
  TcpProxy proxy{static_cast<std::uint16_t>(server.port())};
  std::unique_ptr<Connection> watcher = connect(url);
};

TEST_F(LostAnswerTest, WhatWasCommittedIsCommitted) {
  const auto db = through_proxy();
  Transaction transaction(*db);
  db->run("INSERT INTO t VALUES (1, 1.5)");
  auto commit = std::async(std::launch::async, [&] { return outcome(transaction); });
  committing();
  proxy.reset();  // The server goes on with it: "in progress" for a while.
  EXPECT_EQ(std::nullopt, commit.get());
  EXPECT_EQ(1, count());
}

TEST_F(LostAnswerTest, WhatWasRolledBackMayBeTriedAgain) {
  const auto db = through_proxy();
  Transaction transaction(*db);
  db->run("INSERT INTO t VALUES (1, 60)");
  auto commit = std::async(std::launch::async, [&] { return outcome(transaction); });
  watcher->run("SELECT pg_terminate_backend($1)", committing());
  EXPECT_EQ(Remedy::retry, commit.get());
  EXPECT_EQ(0, count());
}

// Both answers are lost, that to COMMIT and the one with the transaction's number.
TEST_F(LostAnswerTest, WithoutItsNumberItStaysUnknown) {
  const auto db = through_proxy();
  Transaction transaction(*db);
  db->run("INSERT INTO t VALUES (1)");
  proxy.cut_after(0, Direction::to_client);
  EXPECT_EQ(Remedy::unknown, outcome(transaction));
}

// A statement had told the number: then nothing but the server's answer can be lost.
TEST_F(LostAnswerTest, WithItsNumberItIsFoundOut) {
  const auto db = through_proxy();
  Transaction first(*db);
  first.commit();
  Transaction transaction(*db);
  db->note_transaction(db->run("INSERT INTO t VALUES (1) RETURNING pg_current_xact_id()").text(0, 0));
  proxy.cut_after(0, Direction::to_client);
  auto commit = std::async(std::launch::async, [&] { return outcome(transaction); });
  while (count() == 0) std::this_thread::sleep_for(5ms);
  proxy.pass();
  EXPECT_EQ(std::nullopt, commit.get());
  Transaction next(*db);
  EXPECT_EQ(1, db->run("SELECT count(*) FROM t").integer(0, 0)) << "the connection was opened again";
}

// The connection was lost while nobody used it; that is noticed by the first who does.
TEST_F(LostAnswerTest, BeforeItsBeginningATransactionHasNothingToLose) {
  const auto db = through_proxy();
  proxy.reset();
  with_retries(*db, [](Connection& line) { line.run("INSERT INTO t VALUES (1)"); });
  EXPECT_EQ(1, count());

  const auto by_itself = [&]() -> std::optional<Remedy> {
    try {
      db->run("INSERT INTO t VALUES (2)");
      return std::nullopt;
    } catch (const Error& error) {
      return error.remedy();
    }
  };
  proxy.reset();
  EXPECT_EQ(Remedy::unknown, by_itself());
  EXPECT_EQ(Remedy::retry, by_itself()) << "nothing is sent any more";
  EXPECT_EQ(1, count());
}

TEST_F(LostAnswerTest, AServerThatDoesNotComeBackLeavesItUnknown) {
  const auto db = through_proxy();
  Transaction transaction(*db);
  db->run("INSERT INTO t VALUES (1, 0.5)");
  auto commit = std::async(std::launch::async, [&] { return outcome(transaction); });
  committing();
  proxy.refuse();
  EXPECT_EQ(Remedy::unknown, commit.get());
}

class CrashTest : public LostAnswerTest {
 protected:
  CrashTest() : LostAnswerTest(crashing()) {}
  static TmpPostgres& crashing() {
    static TmpPostgres one(true);
    return one;
  }
};

// An asynchronous commit is lost by a crash, and the transaction's number is given out again. Whoever asked by the
// number alone would be told of another's commit.
TEST_F(CrashTest, AnothersCommitUnderTheSameNumberIsNotOurs) {
  const auto db = through_proxy();
  Transaction first(*db);
  first.commit();
  Transaction transaction(*db);
  db->run("SET LOCAL synchronous_commit = off");
  server.stop_wal_writer();
  const std::string number = db->run("INSERT INTO t VALUES (1) RETURNING pg_current_xact_id()").text(0, 0);
  db->note_transaction(number);
  proxy.black_hole(Direction::to_client);
  auto commit = std::async(std::launch::async, [&] { return outcome(transaction); });
  while (count() == 0) std::this_thread::sleep_for(5ms);
  server.crash();
  server.start();
  watcher->reopen();
  ASSERT_EQ(0, count()) << "the crash has taken it back";
  watcher->script("DO $$ BEGIN FOR i IN 1..20 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$");
  ASSERT_EQ("committed", watcher->run("SELECT pg_xact_status($1::xid8)", number).text(0, 0));
  proxy.reset();
  proxy.pass();
  EXPECT_EQ(Remedy::unknown, commit.get());
}

}  // namespace
}  // namespace waybill
