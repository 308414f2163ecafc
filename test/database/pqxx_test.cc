#include "waybill/pqxx.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/enqueue.h"
#include "waybill/idempotency.h"
#include "waybill/inbox.h"
#include "waybill/postgres.h"

#include "support/tmp_postgres.h"

// libpqxx 6.4 forgets the result of a statement that has found the connection lost. Asked by the leak checker, if there
// is one.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:pqxx::connection_base::exec_params\n";
}

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

TEST_F(PqxxTest, WhatComesTwiceIsDoneOnce) {
  const Inbox inbox("billing");
  const IdempotencyKeys keys;
  const std::string body("\0\xff", 2);
  for (const bool first : {true, false}) {
    EXPECT_EQ(first, inbox.once(*db, "m-1", [](Connection& line) { line.run("INSERT INTO room (id) VALUES ('a')"); }));
    EXPECT_EQ(body, keys.once(*db, {.key = "k", .fingerprint = "f"},
                              [&](Connection&) { return StoredAnswer{.body = first ? body : "another"}; })
                        .answer.body);
    pqxx::work work(connection);
    EXPECT_EQ(first, inbox.first_time(*borrow(work), "m-2"));
    work.commit();
  }
  EXPECT_EQ(1, count("room"));
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

TEST_F(PqxxTest, WhatHasFailedToCommitIsNotCommittedTheSecondTime) {
  db->script("CREATE TABLE guest (room text REFERENCES room DEFERRABLE INITIALLY DEFERRED)");
  for (const char* id : {"nowhere", "room"}) {
    Transaction transaction(*db);
    db->run("INSERT INTO guest VALUES ($1)", id);
    if (id == std::string("room")) {
      EXPECT_THROW(db->run("SELECT * FROM nowhere"), Error);
    }
    EXPECT_THROW(transaction.commit(), Error);
    EXPECT_FALSE(transaction.open());
    EXPECT_THROW(transaction.commit(), Error);
    EXPECT_THROW(db->commit(), Error);
  }
  EXPECT_EQ(0, count("guest"));
}

// What is a transaction is not guessed from what a statement looks like.
TEST_F(PqxxTest, AScriptCanBeATransaction) {
  db->script("BEGIN; CREATE TABLE guest (name text); COMMIT");
  EXPECT_FALSE(db->in_transaction());
  with_retries(*db, [](Connection& line) { line.run("INSERT INTO guest VALUES ('ann')"); });
  EXPECT_EQ(1, count("guest"));
}

TEST_F(PqxxTest, Security32_AnErrorDoesNotShowTheRow) {
  const auto told = [&](const std::string& sql) -> std::string {
    try {
      db->run(sql, "secret");
      return "nothing";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(R"(libpqxx: null value in column "id" of relation "room" violates not-null constraint)",
            told("INSERT INTO room (door) VALUES ($1)"));
  db->run("INSERT INTO room (id) VALUES ('secret')");
  EXPECT_EQ(R"(libpqxx: duplicate key value violates unique constraint "room_pkey")",
            told("INSERT INTO room (id) VALUES ($1)"));
  db->script(
      "CREATE FUNCTION fail(state text, what text) RETURNS void LANGUAGE plpgsql AS "
      "'BEGIN RAISE USING ERRCODE = state, MESSAGE = ''so'', DETAIL = what; END'");
  EXPECT_EQ("libpqxx: so", told("SELECT fail('40001', $1)"));
  EXPECT_EQ("libpqxx: so", told("SELECT fail('40P01', $1)"));
}

// To 6.4 they are no errors of SQL.
TEST_F(PqxxTest, WhateverLibpqxxThrowsIsAnError) {
  db->script(
      "CREATE FUNCTION fail(state text) RETURNS void LANGUAGE plpgsql AS 'BEGIN RAISE USING ERRCODE = state; END'");
  const auto remedy = [&](const std::string& state) -> std::optional<Remedy> {
    try {
      db->run("SELECT fail($1)", state);
      return std::nullopt;
    } catch (const Error& error) {
      return error.remedy();
    }
  };
  for (const char* state : {"40000", "40001", "40002", "40P01"}) EXPECT_EQ(Remedy::retry, remedy(state)) << state;
  EXPECT_EQ(Remedy::unknown, remedy("40003"));
  pqxx::work in_the_way(connection);
  EXPECT_EQ(Remedy::fix_input, remedy("40000")) << "it is lent, and used by its owner";
}

// It would be taken for a transaction, in which nothing is done unless it is committed.
template <typename T>
concept Lendable = requires(T& lent) {
  borrow(lent);
};
static_assert(Lendable<pqxx::work> && Lendable<pqxx::connection> && !Lendable<pqxx::nontransaction>);

// libpqxx opens a lost connection again by itself.
TEST_F(PqxxTest, NothingGoesOnWithoutTheTransactionThatWasLost) {
  const auto other = connect(url);
  const std::string others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
  {
    Transaction transaction(*db);
    db->run("INSERT INTO room (id) VALUES ('a')");
    other->run("SELECT pg_terminate_backend(pid) " + others);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (other->run("SELECT count(*) " + others).integer(0, 0) > 0)
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    EXPECT_THROW(db->run("INSERT INTO room (id) VALUES ('b')"), Error);
    // Now its owner uses it: the first time it notices, the second time it is open again.
    while (!connection.is_open()) {
      try {
        pqxx::nontransaction(connection).exec("SELECT 1");
      } catch (const pqxx::broken_connection&) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      }
    }
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
