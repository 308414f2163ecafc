// What idempotency keys do on PostgreSQL: in SQL, between transactions, and when the answer to COMMIT is lost.

#include "waybill/idempotency.h"

#include <future>

#include "postgres/postgres_fixture.h"
#include "support/tcp_proxy.h"

namespace waybill {
namespace {

using Kind = IdempotentResult::Kind;

class IdempotencyTest : public PostgresTest {
 protected:
  IdempotencyTest() {
    // A commit that takes long: a trigger that runs at its end and waits.
    app("CREATE TABLE placed (n int, wait double precision DEFAULT 0);"
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(NEW.wait); RETURN NULL; "
        "END'; CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON placed DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        "EXECUTE FUNCTION wait()");
  }

  static StoredAnswer place(Connection& line) {
    line.run("INSERT INTO placed VALUES (1)");
    return {.status = 201, .body = "placed"};
  }
  bool somebody_waits(const std::string& type) {
    return app("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = '" + type +
               "' AND wait_event IN ('advisory', 'PgSleep') AND datname = current_database()") != "0";
  }
  static std::string begin(const std::string& rest = "'k', 'f'") {
    return "SELECT concat_ws(' ', outcome, status, content_type, convert_from(body, 'UTF8')) FROM "
           "waybill.idempotency_begin(" +
           rest + ")";
  }
  std::int64_t placed() { return app.number("SELECT count(*) FROM placed"); }

  const IdempotencyKeys keys;
  const IdempotentRequest request{.key = "k", .fingerprint = "f"};
  const std::unique_ptr<Connection> one = waybill::connect(url);
  const std::unique_ptr<Connection> two = waybill::connect(url);
};

TEST_F(IdempotencyTest, InSql) {
  EXPECT_EQ("first", app("BEGIN; " + begin()));
  app("SELECT waybill.idempotency_end('k', 'f', 201, '{\"id\": 7}'); COMMIT");
  EXPECT_EQ("again 201 application/json {\"id\": 7}", app(begin()));
  EXPECT_EQ("other", app(begin("'k', 'another'")));
  EXPECT_EQ("first", app(begin("'k', 'another', tenant => 'north'")));
  EXPECT_EQ("first", app("BEGIN; SET LOCAL waybill.tenant = 'north'; " + begin()));
  app("ROLLBACK");
  EXPECT_EQ("40001", app.refusal("SELECT waybill.idempotency_end('k', 'f', 200)"));
  EXPECT_EQ("",
            app.refusal("SELECT waybill.idempotency_end('k', 'f', 204, content_type => 'text/plain', kept => '1 h', "
                        "tenant => 'north')"));
  EXPECT_EQ("1", app("SELECT count(*) FROM waybill.idempotency WHERE tenant = 'north' AND status = 204 AND body = '' "
                     "AND expires_at - answered_at BETWEEN '59 min' AND '61 min'"));
}

TEST_F(IdempotencyTest, InSqlThereAreLimits) {
  for (const char* wrong : {"'', 'f'", "repeat('k', 256), 'f'", "NULL, 'f'", "'k', ''", "'k', NULL",
                            "'k', 'f', wait => '61 s'", "'k', 'f', wait => '-1 s'"})
    EXPECT_EQ("23514", app.refusal(begin(wrong))) << wrong;
  for (const char* wrong :
       {"'', 'f', 200", "'k', '', 200", "'k', 'f', 500", "'k', 'f', 99", "'k', 'f', 200, repeat('x', 1048577)::bytea",
        "'k', 'f', 200, content_type => repeat('x', 256)", "'k', 'f', 200, kept => '0'",
        "'k', 'f', 200, tenant => repeat('x', 256)"})
    EXPECT_EQ("23514", app.refusal(std::string("SELECT waybill.idempotency_end(") + wrong + ")")) << wrong;
}

// Two who call it from SQL, beside the library: one lock for all.
TEST_F(IdempotencyTest, Row83_WhileOneIsAtItOthersAreToldAtOnceAndNobodyWaits) {
  EXPECT_EQ("first", app("BEGIN; " + begin()));
  EXPECT_EQ(Kind::running, keys.once(*one, request, place).kind);
  EXPECT_EQ("running", Sql(url)(begin()));
  EXPECT_EQ("running", Sql(url)(begin("'k', 'another'"))) << "what it is for is not known yet";
  EXPECT_EQ("first", Sql(url)(begin("'k2', 'f'")));
  EXPECT_EQ("first", Sql(url)(begin("'k', 'f', 'north'")));
  EXPECT_EQ("first", app(begin())) << "asked again, the same transaction is at it";
  app("ROLLBACK");
  EXPECT_EQ(Kind::done, keys.once(*one, request, place).kind);
  EXPECT_EQ(1, placed());
}

TEST_F(IdempotencyTest, WaitingHasABoundAndLeavesNoSetting) {
  EXPECT_EQ("first", app("BEGIN; " + begin()));
  Sql other = connect();
  other("BEGIN; SET LOCAL lock_timeout = '7s'");
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ("running", other(begin("'k', 'f', wait => '300 ms'")));
  EXPECT_GE(std::chrono::steady_clock::now() - before, 300ms);
  EXPECT_EQ("7s", other("SHOW lock_timeout")) << "and the transaction goes on";
  auto waits = std::async(std::launch::async, [&] { return other(begin("'k', 'f', wait => '60 s'")); });
  Sql watcher = connect();
  ASSERT_TRUE(eventually([&] { return watcher("SELECT count(*) FROM pg_locks WHERE NOT granted") != "0"; }, 30s));
  app("SELECT waybill.idempotency_end('k', 'f', 200, 'x', 'text/plain'); COMMIT");
  EXPECT_EQ("again 200 text/plain x", waits.get());
  EXPECT_EQ("7s", other("SHOW lock_timeout"));
}

// Who has waited above READ COMMITTED cannot see the answer: he does it, may not write it down, and begins again.
TEST_F(IdempotencyTest, Row83_AboveReadCommittedTheUniqueKeyDecides) {
  for (const Isolation isolation : {Isolation::repeatable_read, Isolation::serializable}) {
    app("DELETE FROM waybill.idempotency; DELETE FROM placed");
    const IdempotencyKeys patient({.wait = 60s, .isolation = isolation});
    Transaction first(*one);
    ASSERT_FALSE(keys.begin(*one, request));
    auto second = std::async(std::launch::async, [&] { return patient.once(*two, request, place); });
    ASSERT_TRUE(eventually([&] { return somebody_waits("Lock"); }, 30s));
    keys.end(*one, request, place(*one));
    first.commit();
    const IdempotentResult result = second.get();
    EXPECT_EQ(Kind::again, result.kind);
    EXPECT_EQ("placed", result.answer.body);
    EXPECT_EQ(1, placed());
  }
}

// Somebody else has the lock of the same number: another key with the same hash, or an application's own.
TEST_F(IdempotencyTest, ALockOfTheSameNumberMakesNoWrongAnswer) {
  const std::string lock =
      "SELECT pg_advisory_lock(hashtextextended('k', hashtextextended('waybill idempotency default', 0)))";
  app(lock);
  EXPECT_EQ(Kind::running, keys.once(*one, request, place).kind);
  app("SELECT pg_advisory_unlock_all()");
  EXPECT_EQ(Kind::done, keys.once(*one, request, place).kind);
  app(lock);
  EXPECT_EQ(Kind::again, keys.once(*one, request, place).kind) << "who is answered needs no lock";
  EXPECT_EQ(Kind::other, keys.once(*one, {.key = "k", .fingerprint = "g"}, place).kind);
  EXPECT_EQ(1, placed());
}

TEST_F(IdempotencyTest, NothingIsHeldAfterwards) {
  keys.once(*one, request, place);
  keys.once(*two, request, place);
  EXPECT_THROW(keys.once(*one, {.key = "k3", .fingerprint = "f"},
                         [](Connection& line) {
                           place(line);
                           return StoredAnswer{.status = 7};
                         }),
               Error);
  EXPECT_EQ(0, app.number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"));
  EXPECT_FALSE(one->in_transaction());
}

class LostAnswerTest : public IdempotencyTest {
 protected:
  std::unique_ptr<Connection> through_proxy() const {
    return waybill::connect("postgresql://postgres@127.0.0.1:" + std::to_string(proxy.port()) +
                            url.substr(url.rfind('/')));
  }
  // Its COMMIT takes `seconds`.
  static StoredAnswer place_slowly(Connection& line, double seconds) {
    line.run("INSERT INTO placed VALUES (1, $1)", seconds);
    return {.status = 201, .body = "placed"};
  }
  void wait_for_commit() {
    ASSERT_TRUE(eventually([&] { return somebody_waits("Timeout"); }, 30s));
  }

  TcpProxy proxy{static_cast<std::uint16_t>(server.port())};
};

TEST_F(LostAnswerTest, WhatWasCommittedIsDone) {
  const auto line = through_proxy();
  auto result = std::async(std::launch::async, [&] {
    return keys.once(*line, request, [](Connection& same) { return place_slowly(same, 1.0); });
  });
  wait_for_commit();
  EXPECT_EQ(Kind::running, keys.once(*two, request, place).kind) << "the server is still at it";
  proxy.reset();
  EXPECT_EQ(Kind::done, result.get().kind);
  EXPECT_EQ(Kind::again, keys.once(*line, request, place).kind) << "on a connection that was opened again";
  EXPECT_EQ(1, placed());
}

TEST_F(LostAnswerTest, WhatWasRolledBackIsDoneByTheNext) {
  const auto line = through_proxy();
  auto result = std::async(std::launch::async, [&] {
    try {
      keys.once(*line, request, [](Connection& same) { return place_slowly(same, 60); });
      return std::optional<Remedy>();
    } catch (const Error& error) {
      return std::optional(error.remedy());
    }
  });
  wait_for_commit();
  app("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
  EXPECT_EQ(Remedy::retry, result.get());
  EXPECT_EQ(0, placed());
  EXPECT_EQ(Kind::done, keys.once(*line, request, place).kind);
  EXPECT_EQ(1, placed());
}

}  // namespace
}  // namespace waybill
