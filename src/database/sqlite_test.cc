#include <filesystem>
#include <limits>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include "waybill/database.h"

#include "database/savepoint.h"

namespace waybill {
namespace {

class SqliteTest : public testing::Test {
 protected:
  SqliteTest() {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    sqlite3* raw = nullptr;
    sqlite3_open((folder / "app.db").c_str(), &raw);
    handle.reset(raw);
    sqlite3_busy_timeout(raw, 0);
    lent = borrow(raw);
    lent->script("PRAGMA journal_mode = WAL; CREATE TABLE room (id TEXT PRIMARY KEY, free, size REAL, door BLOB)");
  }
  ~SqliteTest() override {
    lent.reset();
    handle.reset();
    std::filesystem::remove_all(folder);
  }

  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("waybill-database-" + std::to_string(::getpid()));
  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> handle{nullptr, &sqlite3_close};
  std::unique_ptr<Connection> lent;
};

TEST_F(SqliteTest, ParametersGoByTheirNumbersAndKeepTheirKinds) {
  const Rows written =
      lent->run("INSERT INTO room (door, size, free, id) VALUES ($4, $3, $2, $1)", "r-7", true, 2.5, bytes("\x01\xff"));
  EXPECT_EQ(1, written.affected());
  lent->run("INSERT INTO room (id, free) VALUES ($1, $2)", "r-8", std::nullopt);
  const Rows rows =
      lent->run("SELECT id, free, size, hex(door), typeof(free), typeof(size), free = 1 FROM room WHERE free = $1", 1);
  ASSERT_EQ(1U, rows.size());
  EXPECT_EQ("r-7", rows.text(0, 0));
  EXPECT_EQ(1, rows.integer(0, 1));
  EXPECT_EQ("2.5", rows.text(0, 2));
  EXPECT_EQ("01FF", rows.text(0, 3));
  EXPECT_EQ("integer", rows.text(0, 4));
  EXPECT_EQ("real", rows.text(0, 5));
  EXPECT_TRUE(rows.boolean(0, 6));
  EXPECT_TRUE(lent->run("SELECT free FROM room WHERE id = $1", std::string("r-8")).null(0, 0));
  EXPECT_EQ(0, lent->run("UPDATE room SET free = 0 WHERE id = $1", "r-9").affected());
  EXPECT_THROW(rows.integer(0, 0), Error);
  EXPECT_THROW(lent->run("SELECT $1", 1, 2), Error) << "there is no second parameter";
  EXPECT_THROW(lent->run("UPDATE room SET free = $1 WHERE id = $2", 1), Error) << "there is no second value";
  EXPECT_THROW(lent->run(""), Error);
  EXPECT_THROW(lent->run("SELECT 1; DELETE FROM room"), Error) << "half of it would not be run, and nobody told";
  EXPECT_EQ(1U, lent->run("SELECT 1; -- that is all\n").size());
}

TEST_F(SqliteTest, ANumberIsKeptOrRefused) {
  const auto kept = [&](const auto& number) { return lent->run("SELECT $1", number).text(0, 0); };
  EXPECT_EQ("9223372036854775807", kept((std::uint64_t{1} << 63U) - 1));
  EXPECT_THROW(kept(std::uint64_t{1} << 63U), Error);
  EXPECT_EQ("-9223372036854775808", kept(std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ("real", lent->run("SELECT typeof($1)", 12345678901234567000.0).text(0, 0));
  EXPECT_EQ(1, lent->run("SELECT $1 = 12345678901234567000.0", 12345678901234567000.0).integer(0, 0));
  EXPECT_EQ(1, lent->run("SELECT $1 = -12345678901234567000.0", -12345678901234567000.0).integer(0, 0));
  EXPECT_EQ("0.1", kept(0.1));
}

TEST_F(SqliteTest, NothingGoesOnWithoutTheTransactionThatAStatementHasEnded) {
  lent->run("INSERT INTO room (id) VALUES ('a')");
  {
    Transaction transaction(*lent);
    lent->run("INSERT INTO room (id) VALUES ('b')");
    EXPECT_THROW(lent->run("INSERT OR ROLLBACK INTO room (id) VALUES ('a')"), Error);
    EXPECT_THROW(lent->run("INSERT INTO room (id) VALUES ('c')"), Error);
    EXPECT_THROW(lent->script("INSERT INTO room (id) VALUES ('d')"), Error);
    try {
      transaction.commit();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::retry, error.remedy());
    }
    EXPECT_FALSE(transaction.open());
  }
  EXPECT_EQ("a", lent->run("SELECT group_concat(id) FROM room").text(0, 0));
  with_retries(*lent, [](Connection& db) { db.run("INSERT INTO room (id) VALUES ('e')"); });
  EXPECT_EQ("a,e", lent->run("SELECT group_concat(id) FROM room").text(0, 0));
}

// Another reads: what is to be committed has to wait.
TEST_F(SqliteTest, Row35_ACommitThatWasInAnothersWayCanBeTriedAgain) {
  lent->run("PRAGMA journal_mode = DELETE");
  const auto other = connect("sqlite:" + (folder / "app.db").string());
  other->script("BEGIN; SELECT * FROM room");
  Transaction transaction(*lent);
  lent->run("INSERT INTO room (id) VALUES ('a')");
  EXPECT_THROW(transaction.commit(), Collision);
  EXPECT_TRUE(transaction.open());
  other->script("COMMIT");
  transaction.commit();
  EXPECT_EQ(1, lent->run("SELECT count(*) FROM room").integer(0, 0));
}

TEST_F(SqliteTest, ASavepointLeavesNothingBehind) {
  lent->run("PRAGMA journal_mode = DELETE");
  const auto other = connect("sqlite:" + (folder / "app.db").string());
  {
    Savepoint by_itself(*lent);
    lent->run("INSERT INTO room (id) VALUES ('a')");
    other->script("BEGIN; SELECT * FROM room");
    EXPECT_THROW(by_itself.release(), Collision);
  }
  EXPECT_FALSE(lent->in_transaction());
  other->script("COMMIT");
  Transaction transaction(*lent);
  lent->run("INSERT INTO room (id) VALUES ('b')");
  {
    Savepoint inner(*lent);
    lent->run("INSERT INTO room (id) VALUES ('c')");
  }
  Savepoint kept(*lent);
  lent->run("INSERT INTO room (id) VALUES ('d')");
  kept.release();
  transaction.commit();
  EXPECT_EQ("b,d", lent->run("SELECT group_concat(id) FROM room").text(0, 0));
}

TEST_F(SqliteTest, ATransactionThatIsNotCommittedIsRolledBack) {
  {
    Transaction transaction(*lent);
    EXPECT_TRUE(lent->in_transaction());
    EXPECT_THROW(Transaction second(*lent), Error);
    lent->run("INSERT INTO room (id) VALUES ('a')");
  }
  EXPECT_FALSE(lent->in_transaction());
  {
    Transaction transaction(*lent);
    lent->run("INSERT INTO room (id) VALUES ('b')");
    transaction.commit();
    EXPECT_THROW(transaction.commit(), Error);
  }
  EXPECT_EQ("b", lent->run("SELECT group_concat(id) FROM room").text(0, 0));
}

TEST_F(SqliteTest, Row35_AnotherWriterIsACollision) {
  const auto other = connect("sqlite:" + (folder / "app.db").string());
  Transaction others(*other);
  EXPECT_THROW(Transaction mine(*lent), Collision);
  EXPECT_FALSE(lent->in_transaction());
  others.rollback();
  EXPECT_EQ(7, with_retries(*lent, [&](Connection&) { return 7; }));
}

TEST_F(SqliteTest, ACollisionBeginsAllOfItAgain) {
  int attempts = 0;
  with_retries(*lent, [&](Connection& db) {
    db.run("INSERT INTO room (id) VALUES ('a')");
    if (++attempts < 4) throw Collision("in the way");
  });
  EXPECT_EQ(4, attempts);
  EXPECT_EQ(1, lent->run("SELECT count(*) FROM room").integer(0, 0));
  attempts = 0;
  const auto hopeless = [&](Connection&) {
    ++attempts;
    throw Collision("in the way");
  };
  EXPECT_THROW(with_retries(*lent, hopeless, {.attempts = 3}), Collision);
  EXPECT_EQ(3, attempts);
  EXPECT_THROW(with_retries(*lent, [&](Connection&) { throw Error(Remedy::retry, "another kind"); }), Error);
  EXPECT_FALSE(lent->in_transaction());
}

TEST_F(SqliteTest, AMistypedPathIsNoNewDatabase) {
  EXPECT_THROW(connect("sqlite:" + (folder / "ap.db").string()), Error);
  EXPECT_FALSE(std::filesystem::exists(folder / "ap.db"));
}

}  // namespace
}  // namespace waybill
