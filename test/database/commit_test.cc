// The answer to COMMIT is lost. Was it committed?

#include <functional>
#include <future>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <signal.h>

#include "waybill/database.h"

#include "database/postgres_fate.h"
#include "support/tcp_proxy.h"
#include "support/tmp_postgres.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

// Waits for it, for as long as it may take on a busy machine.
void await(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("it has not come true in a minute");
    std::this_thread::sleep_for(5ms);
  }
}

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

  std::string url_through(const TcpProxy& network) const {
    return "postgresql://postgres@127.0.0.1:" + std::to_string(network.port()) + url.substr(url.rfind('/'));
  }
  std::unique_ptr<Connection> through_proxy() const { return connect(url_through(proxy)); }

  // Waits until so many COMMITs are being carried out.
  void await_committing(int count = 1) {
    await([&] { return watcher->run("SELECT count(*) " + committing).integer(0, 0) == count; });
  }
  void end_committing() { watcher->run("SELECT pg_terminate_backend(pid) " + committing); }

  // Without an answer, which the connection waits for: the number is known.
  std::string number_of_insert(Connection& line) {
    const std::string number = line.run("INSERT INTO t VALUES (1) RETURNING pg_current_xact_id()").text(0, 0);
    line.note_transaction(number);
    return number;
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

  const std::string committing =
      "FROM pg_stat_activity WHERE query LIKE 'COMMIT%' AND state = 'active' AND wait_event = 'PgSleep' AND datname = "
      "current_database()";
  TmpPostgres& server;
  const std::string url = server.fresh_database();
  TcpProxy proxy{static_cast<std::uint16_t>(server.port())};
  std::unique_ptr<Connection> watcher = connect(url);
};

TEST_F(LostAnswerTest, Row2_WhatWasCommittedIsCommitted) {
  const auto db = through_proxy();
  Transaction transaction(*db);
  db->run("INSERT INTO t VALUES (1, 1.5)");
  auto commit = std::async(std::launch::async, [&] { return outcome(transaction); });
  await_committing();
  proxy.reset();  // The server goes on with it: "in progress" for a while.
  EXPECT_EQ(std::nullopt, commit.get());
  EXPECT_EQ(1, count());
}

TEST_F(LostAnswerTest, Row2_WhatWasRolledBackMayBeTriedAgain) {
  const auto db = through_proxy();
  Transaction transaction(*db);
  db->run("INSERT INTO t VALUES (1, 60)");
  auto commit = std::async(std::launch::async, [&] { return outcome(transaction); });
  await_committing();
  end_committing();
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
  EXPECT_FALSE(transaction.open());
  EXPECT_EQ(Remedy::fix_input, outcome(transaction)) << "to try again tells nothing new";
}

// A statement had told the number: then nothing but the server's answer can be lost.
TEST_F(LostAnswerTest, Row2_WithItsNumberItIsFoundOut) {
  const auto db = through_proxy();
  Transaction first(*db);
  first.commit();
  Transaction transaction(*db);
  number_of_insert(*db);
  proxy.cut_after(0, Direction::to_client);
  auto commit = std::async(std::launch::async, [&] { return outcome(transaction); });
  await([&] { return count() == 1; });
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

// A transaction without a number has written nothing. But a NOTIFY has its effect at COMMIT, and only there.
TEST_F(LostAnswerTest, WhatIsDoneAtCommitAloneLeavesItUnknown) {
  bool committed = false;
  for (std::size_t bytes = 0; !committed; bytes += 16) {
    ASSERT_LT(bytes, 1'000U);
    proxy.pass();
    const auto db = through_proxy();
    Transaction transaction(*db);
    db->run("SELECT pg_notify('news', '')");
    proxy.cut_after(bytes, Direction::to_client);
    const auto result = outcome(transaction);
    committed = result == std::nullopt;
    if (committed) {
      EXPECT_TRUE(db->usable()) << "not all of the answer has come, but " << bytes << " bytes";
    } else {
      EXPECT_EQ(Remedy::unknown, result);
    }
  }
}

// One is gone, the other accepts connections and then says nothing.
TEST_F(LostAnswerTest, AServerThatDoesNotComeBackLeavesItUnknown) {
  TcpProxy silence(static_cast<std::uint16_t>(server.port()));
  const std::unique_ptr<PGconn, decltype(&PQfinish)> raw(PQconnectdb(url_through(silence).c_str()), &PQfinish);
  const std::unique_ptr<Connection> own = through_proxy();
  const std::unique_ptr<Connection> lent = borrow(raw.get());
  const auto lost = [](Connection& db) {
    Transaction transaction(db);
    db.run("INSERT INTO t VALUES (1, 120)");
    return outcome(transaction);
  };
  auto first = std::async(std::launch::async, [&] { return lost(*own); });
  auto second = std::async(std::launch::async, [&] { return lost(*lent); });
  await_committing(2);
  proxy.refuse();
  silence.black_hole();
  silence.reset();
  EXPECT_EQ(Remedy::unknown, first.get());
  EXPECT_EQ(Remedy::unknown, second.get());
  end_committing();
}

// A number tells nothing of itself: before 15 a crash from which the server has recovered is not noticed.
TEST_F(LostAnswerTest, BeforeVersion15ACommitMayBeAnothers) {
  const auto fate = [&](int version, const char* end) {
    const std::string run = watcher->run("SELECT " + run_sql(version)).text(0, 0);
    watcher->script("BEGIN");
    const std::string number = watcher->run("SELECT pg_current_xact_id()").text(0, 0);
    watcher->script(end);
    EXPECT_EQ("lost", watcher->run(fate_sql(version), number, run + '1').text(0, 0)) << "another run";
    return watcher->run(fate_sql(version), number, run).text(0, 0);
  };
  EXPECT_EQ("committed", fate(150000, "COMMIT"));
  EXPECT_EQ("lost", fate(140000, "COMMIT"));
  for (const int version : {140000, 150000}) EXPECT_EQ("aborted", fate(version, "ROLLBACK"));
}

// The whole server, or a process of its; then it recovers without being started anew.
class CrashTest : public LostAnswerTest, public testing::WithParamInterface<bool> {
 protected:
  CrashTest() : LostAnswerTest(crashing()) {}
  void crash() {
    if (GetParam()) {
      server.crash();
      server.start();
    } else {
      ASSERT_EQ(0, ::kill(static_cast<pid_t>(watcher->run("SELECT pg_backend_pid()").integer(0, 0)), SIGKILL));
    }
    // It has taken back what was not on disk.
    await([&] {
      try {
        watcher->reopen();
        return count() == 0;
      } catch (const Error&) {
        return false;
      }
    });
  }
  static TmpPostgres& crashing() {
    static TmpPostgres one(true);
    return one;
  }
};

// An asynchronous commit is lost by a crash, and the transaction's number is given out again. Whoever asked by the
// number alone would be told of another's commit.
TEST_P(CrashTest, Row2_AnothersCommitUnderTheSameNumberIsNotOurs) {
  const auto db = through_proxy();
  Transaction first(*db);
  first.commit();
  Transaction transaction(*db);
  db->run("SET LOCAL synchronous_commit = off");
  server.stop_wal_writer();
  const std::string number = number_of_insert(*db);
  proxy.black_hole(Direction::to_client);
  auto commit = std::async(std::launch::async, [&] { return outcome(transaction); });
  await([&] { return count() == 1; });
  crash();
  watcher->script("DO $$ BEGIN FOR i IN 1..20 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$");
  ASSERT_EQ("committed", watcher->run("SELECT pg_xact_status($1::xid8)", number).text(0, 0));
  proxy.reset();
  proxy.pass();
  EXPECT_EQ(Remedy::unknown, commit.get());
}
INSTANTIATE_TEST_SUITE_P(Crashes, CrashTest, testing::Bool(),
                         [](const auto& whole) { return whole.param ? "server" : "process"; });

// Its statistics outlive that; those of a copy of its files, too.
TEST(Run, ThatAServerWasStartedAnewIsAnotherOne) {
  TmpPostgres server;
  const auto db = connect(server.fresh_database());
  const auto run = [&] { return db->run("SELECT " + run_sql(150000)).text(0, 0); };
  const std::string before = run();
  EXPECT_EQ(before, run());
  server.restart();
  db->reopen();
  EXPECT_NE(before, run());
}

}  // namespace
}  // namespace waybill
