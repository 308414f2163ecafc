#include "waybill/pqxx.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/enqueue.h"
#include "waybill/postgres.h"

#include "support/tmp_postgres.h"

namespace waybill {
namespace {

class PqxxTest : public testing::Test {
 protected:
  PqxxTest() {
    postgres_store({.url = url})->schema()->migrate();
    db->script("CREATE TABLE room (id text PRIMARY KEY, door bytea, seats bigint)");
  }

  std::int64_t count(const std::string& table) { return db->run("SELECT count(*) FROM " + table).integer(0, 0); }

  const std::string url = TmpPostgres::shared().fresh_database();
  pqxx::connection connection{url};
  const std::unique_ptr<Connection> db = borrow(connection);
};

TEST_F(PqxxTest, ValuesGoThereAndBack) {
  EXPECT_EQ(
      1, db->run("INSERT INTO room VALUES ($1, $2, $3)", "r-7", bytes(std::string_view("\0\xff", 2)), 42).affected());
  db->run("INSERT INTO room VALUES ($1, $2, $3)", "r-8", std::nullopt, std::nullopt);
  const Rows rows = db->run("SELECT id, encode(door, 'hex'), seats FROM room ORDER BY id");
  ASSERT_EQ(2U, rows.size());
  EXPECT_EQ("r-7", rows.text(0, 0));
  EXPECT_EQ("00ff", rows.text(0, 1));
  EXPECT_EQ(42, rows.integer(0, 2));
  EXPECT_TRUE(rows.null(1, 1));
  EXPECT_THROW(db->run("SELECT * FROM nowhere"), Error);
}

TEST_F(PqxxTest, AnEventIsWrittenInATransactionOfItsOwn) {
  for (const bool commits : {true, false}) {
    pqxx::work work(connection);
    work.exec("INSERT INTO room (id) VALUES ('a')");
    const auto lent = borrow(work);
    enqueue(*lent, {.topic = "room.added", .payload = "{}"});
    EXPECT_THROW(Transaction second(*lent), Error);
    if (commits) work.commit();
    if (commits) break;
  }
  EXPECT_EQ(1, count("room"));
  EXPECT_EQ(1, count("waybill.event"));
}

TEST_F(PqxxTest, OurTransactionsRunOnItsConnection) {
  {
    Transaction transaction(*db);
    db->run("INSERT INTO room (id) VALUES ('a')");
  }
  EXPECT_EQ(0, count("room"));
  {
    Transaction transaction(*db);
    db->run("INSERT INTO room (id) VALUES ('a')");
    EXPECT_THROW(db->run("INSERT INTO room (id) VALUES ('a')"), Error);
    EXPECT_THROW(transaction.commit(), Error);
  }
  EXPECT_EQ(0, count("room"));
  with_retries(*db, [](Connection& line) { line.run("INSERT INTO room (id) VALUES ($1)", "b"); });
  pqxx::work work(connection);
  EXPECT_EQ(1, work.exec1("SELECT count(*) FROM room")[0].as<int>());
}

// libpqxx opens a connection again by itself.
TEST_F(PqxxTest, NothingGoesOnWithoutTheTransactionThatWasLost) {
  const auto other = connect(url);
  const std::string others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
  {
    Transaction transaction(*db);
    db->run("INSERT INTO room (id) VALUES ('a')");
    other->run("SELECT pg_terminate_backend(pid) " + others);
    while (other->run("SELECT count(*) " + others).integer(0, 0) > 0) std::this_thread::yield();
    EXPECT_THROW(db->run("INSERT INTO room (id) VALUES ('b')"), Error);
    connection.disconnect();  // Then libpqxx opens it again when it is used.
    pqxx::nontransaction(connection).exec("SELECT 1");
    EXPECT_THROW(db->run("INSERT INTO room (id) VALUES ('c')"), Error);
    EXPECT_THROW(transaction.commit(), Error);
  }
  EXPECT_EQ(0, count("room"));
  with_retries(*db, [](Connection& line) { line.run("INSERT INTO room (id) VALUES ('d')"); });
  EXPECT_EQ(1, count("room"));
}

TEST_F(PqxxTest, ACollisionIsBegunAgain) {
  db->run("INSERT INTO room (id, seats) VALUES ('r', 0)");
  const auto other = connect(url);
  int attempts = 0;
  with_retries(*db,
               [&](Connection& line) {
                 const auto seats = line.run("SELECT seats FROM room").integer(0, 0);
                 if (++attempts == 1) other->run("UPDATE room SET seats = 7");
                 line.run("UPDATE room SET seats = $1", seats + 1);
               },
               {.transaction = {.isolation = Isolation::repeatable_read}});
  EXPECT_EQ(2, attempts);
  EXPECT_EQ(8, db->run("SELECT seats FROM room").integer(0, 0));
}

}  // namespace
}  // namespace waybill
