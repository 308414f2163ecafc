#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include "waybill/database.h"

#include "support/tmp_pgbouncer.h"
#include "support/tmp_postgres.h"

namespace waybill {
namespace {

using testing::HasSubstr;

// Directly, and through a pooler that gives every transaction another session.
class PostgresConnectionTest : public testing::TestWithParam<bool> {
 protected:
  PostgresConnectionTest() {
    db->script(
        "CREATE TABLE room (id text PRIMARY KEY, free boolean, size double precision, door bytea, seats bigint)");
  }

  static std::string fresh_url() {
    const std::string url = TmpPostgres::shared().fresh_database();
    static TmpPgBouncer pooler(TmpPostgres::shared().port());
    return GetParam() ? pooler.url(url.substr(url.rfind('/') + 1)) : url;
  }

  const std::string url = fresh_url();
  const std::unique_ptr<Connection> db = connect(url);
};

INSTANTIATE_TEST_SUITE_P(Ways, PostgresConnectionTest, testing::Bool(),
                         [](const auto& way) { return way.param ? "pooled" : "direct"; });

TEST_P(PostgresConnectionTest, ValuesGoThereAndBack) {
  const Rows written = db->run("INSERT INTO room VALUES ($1, $2, $3, $4, $5), ('r-8', NULL, NULL, NULL, NULL)",
                               std::string("r-7"), true, 2.5, bytes(std::string_view("\0\xff", 2)), 42);
  EXPECT_EQ(2, written.affected());
  EXPECT_TRUE(written.empty());
  const Rows rows =
      db->run("SELECT id, free, size, door, seats FROM room WHERE free = $1 OR $2::bigint IS NULL ORDER BY id", true,
              std::optional<int>());
  ASSERT_EQ(2U, rows.size());
  EXPECT_EQ("r-7", rows.text(0, 0));
  EXPECT_TRUE(rows.boolean(0, 1));
  EXPECT_EQ("2.5", rows.text(0, 2));
  EXPECT_EQ("\\x00ff", rows.text(0, 3));
  EXPECT_EQ(42, rows.integer(0, 4));
  EXPECT_TRUE(rows.null(1, 4));
  EXPECT_EQ(0, db->run("DELETE FROM room WHERE id = $1", "r-9").affected());
  EXPECT_THROW(db->run("SELECT $1", std::string_view("a\0b", 3)), Error);
}

TEST_P(PostgresConnectionTest, ATransactionThatIsNotCommittedIsRolledBack) {
  {
    Transaction transaction(*db);
    EXPECT_TRUE(db->in_transaction());
    db->run("INSERT INTO room (id) VALUES ('a')");
    EXPECT_THROW(Transaction second(*db), Error);
  }
  EXPECT_FALSE(db->in_transaction());
  for (const char* id : {"b", "c"}) {
    Transaction transaction(*db);
    db->run("INSERT INTO room (id) VALUES ($1)", id);
    transaction.commit();
    EXPECT_THROW(transaction.commit(), Error);
  }
  Transaction reads(*db);
  EXPECT_EQ("b,c", db->run("SELECT string_agg(id, ',' ORDER BY id) FROM room").text(0, 0));
  reads.commit();
}

TEST_P(PostgresConnectionTest, TheCommitOfAFailedTransactionIsAnError) {
  Transaction transaction(*db);
  db->run("INSERT INTO room (id) VALUES ('a')");
  try {
    db->run("INSERT INTO room (id) VALUES ('a')");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_input, error.remedy());
  }
  try {
    transaction.commit();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rolled back"));
  }
  EXPECT_FALSE(db->in_transaction());
  EXPECT_EQ(0, db->run("SELECT count(*) FROM room").integer(0, 0));
}

TEST_P(PostgresConnectionTest, WhatIsRefusedAtCommitIsThrown) {
  db->script("CREATE TABLE guest (room text REFERENCES room DEFERRABLE INITIALLY DEFERRED)");
  Transaction transaction(*db);
  db->run("INSERT INTO guest VALUES ('nowhere')");
  try {
    transaction.commit();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_input, error.remedy());
  }
  EXPECT_FALSE(db->in_transaction());
}

TEST_P(PostgresConnectionTest, Row22_TransactionsThatAreInEachOthersWayAreBegunAgain) {
  db->run("INSERT INTO room (id, seats) VALUES ('r', 0)");
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([this] {
      const auto mine = connect(url);
      for (int n = 0; n < 20; ++n)
        with_retries(*mine,
                     [](Connection& line) {
                       const auto seats = line.run("SELECT seats FROM room WHERE id = $1", "r").integer(0, 0);
                       line.run("UPDATE room SET seats = $1 WHERE id = $2", seats + 1, "r");
                     },
                     {.attempts = 1'000, .transaction = {.isolation = Isolation::serializable}});
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(60, db->run("SELECT seats FROM room").integer(0, 0));
}

TEST_P(PostgresConnectionTest, Security16_TheTenantIsThatOfTheTransactionAlone) {
  const std::string tenant = "SELECT coalesce(current_setting('waybill.tenant', true), '')";
  for (const char* name : {"north", "o'south"}) {
    Transaction transaction(*db, {.tenant = name});
    EXPECT_EQ(name, db->run(tenant).text(0, 0));
    transaction.commit();
    EXPECT_EQ("", db->run(tenant).text(0, 0));
  }
}

// It is told to the server once then, which changes nothing about it.
TEST_P(PostgresConnectionTest, AStatementMayBeRunAgainAndAgain) {
  const std::string add = "INSERT INTO room (id, seats) VALUES ($1, $2)";
  const std::string sum = "SELECT sum(seats) FROM room";
  for (const char* name : {"a", "b"}) {
    Transaction transaction(*db);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(1, db->run(add, name + std::to_string(i), i).affected());
    db->script("SAVEPOINT before");
    EXPECT_THROW(db->run(add, "a0", 1), Error);
    EXPECT_THROW(db->run(add, "a0", 1), Error);
    db->run("ROLLBACK TO SAVEPOINT before");
    EXPECT_EQ(1, db->run(add, name, std::nullopt).affected());
    EXPECT_EQ(1, db->run(add, std::string(name) + "!", 0).affected());
    transaction.commit();
  }
  EXPECT_EQ(90, db->run(sum).integer(0, 0));
  EXPECT_EQ(90, db->run(sum).integer(0, 0));
  Transaction transaction(*db);
  EXPECT_EQ(90, db->run(sum).integer(0, 0));
  db->script("CREATE SCHEMA other; CREATE TABLE other.room (seats bigint)");
  EXPECT_EQ(90, db->run(sum).integer(0, 0));
  db->script("SET LOCAL search_path = other");
  EXPECT_TRUE(db->run(sum).null(0, 0));
}

TEST_P(PostgresConnectionTest, LeavesNothingInTheSession) {
  with_retries(*db, [](Connection& line) { line.run("INSERT INTO room (id) VALUES ($1)", "a"); });
  EXPECT_EQ(0, db->run("SELECT count(*) FROM pg_prepared_statements").integer(0, 0));
  EXPECT_EQ(0, db->run("SELECT count(*) FROM pg_settings WHERE source = 'session' AND name NOT IN ('client_encoding', "
                       "'application_name', 'DateStyle', 'TimeZone', 'standard_conforming_strings')")
                   .integer(0, 0));
}

TEST(PostgresConnection, Row23_ADeadlockIsACollision) {
  const std::string url = TmpPostgres::shared().fresh_database();
  const auto one = connect(url);
  one->script("CREATE TABLE room (id text PRIMARY KEY, seats bigint); INSERT INTO room VALUES ('a', 0), ('b', 0)");
  const auto both = [&url](const char* first, const char* second) {
    const auto mine = connect(url);
    for (int n = 0; n < 5; ++n)
      with_retries(*mine, [&](Connection& db) {
        db.run("SET LOCAL deadlock_timeout = '10ms'");
        for (const char* id : {first, second}) {
          db.run("UPDATE room SET seats = seats + 1 WHERE id = $1", id);
          db.run("SELECT pg_sleep(0.01)");
        }
      });
  };
  std::thread other([&] { both("b", "a"); });
  both("a", "b");
  other.join();
  EXPECT_EQ("10,10", one->run("SELECT string_agg(seats::text, ',') FROM room").text(0, 0));
}

TEST(PostgresConnection, OneThatWasOpenedHereIsOpenedAgain) {
  TmpPostgres server;
  const std::string url = server.fresh_database();
  const auto own = connect(url);
  const std::unique_ptr<PGconn, decltype(&PQfinish)> raw(PQconnectdb(url.c_str()), &PQfinish);
  const auto lent = borrow(raw.get());
  own->script("CREATE TABLE t (n int)");
  {
    Transaction transaction(*own);
    own->run("INSERT INTO t VALUES (1)");
    server.restart();
    EXPECT_THROW(lent->run("SELECT 1"), Error);
    try {
      own->run("INSERT INTO t VALUES (2)");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::retry, error.remedy()) << "it was not by itself: nothing can have been committed";
    }
    EXPECT_FALSE(own->usable());
    EXPECT_THROW(transaction.commit(), Error);
  }
  EXPECT_THROW(Transaction on_lent(*lent), Error);
  with_retries(*own, [](Connection& db) { db.run("INSERT INTO t VALUES (3)"); });
  EXPECT_EQ("3", own->run("SELECT string_agg(n::text, ',') FROM t").text(0, 0));
}

}  // namespace
}  // namespace waybill
