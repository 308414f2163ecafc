#include <future>

#include <nlohmann/json.hpp>

#include "waybill/enqueue.h"
#include "waybill/idempotency.h"
#include "waybill/unit_of_work.h"

#include "service/databases.h"

namespace waybill {
namespace {

using Kind = IdempotentResult::Kind;
using namespace std::chrono_literals;

class IdempotencySuite : public DatabaseTest {
 protected:
  IdempotencySuite() { db->script("CREATE TABLE placed (id text NOT NULL)"); }

  static IdempotentRequest request(const std::string& body = "{}", const std::string& key = "k-1",
                                   const std::string& tenant = "") {
    return {.key = key, .fingerprint = fingerprint({"POST", "/orders", body}), .tenant = tenant};
  }
  // Places an order: state, event, answer.
  StoredAnswer place(Connection& line, int status = 201) {
    const std::string id = "o-" + std::to_string(++executions);
    line.run("INSERT INTO placed (id) VALUES ($1)", id);
    enqueue(line, {.topic = "order.placed", .payload = '"' + id + '"'});
    return {.status = status, .content_type = "text/plain", .body = id};
  }
  IdempotentResult once(const IdempotentRequest& what, int status = 201) {
    return keys.once(*db, what, [&](Connection& line) { return place(line, status); });
  }
  // "done 201 o-1"
  static std::string text(const IdempotentResult& result) {
    const char* kind = result.kind == Kind::done      ? "done"
                       : result.kind == Kind::again   ? "again"
                       : result.kind == Kind::failed  ? "failed"
                       : result.kind == Kind::running ? "running"
                                                      : "other";
    const bool ours = result.kind == Kind::running || result.kind == Kind::other;
    return kind + (' ' + std::to_string(result.answer.status)) + (ours ? "" : ' ' + result.answer.body);
  }
  // Orders, events and answers.
  std::string contents() {
    return std::to_string(count("placed")) + ' ' + std::to_string(count(table("event"))) + ' ' +
           std::to_string(count(table("idempotency")));
  }
  void expire() {
    db->script(
        "UPDATE " + table("idempotency") +
        (sqlite() ? " SET expires_at = answered_at"
                  : " SET answered_at = answered_at - interval '2 days', expires_at = expires_at - interval '1 day'"));
  }

  IdempotencyKeys keys;
  int executions = 0;
};

INSTANTIATE_TEST_SUITE_P(Databases, IdempotencySuite, every_database, database_name);

TEST_P(IdempotencySuite, Row83_ARepetitionGetsTheAnswerOfTheFirst) {
  EXPECT_EQ("done 201 o-1", text(once(request())));
  for (int i = 0; i < 3; ++i) EXPECT_EQ("again 201 o-1", text(once(request())));
  EXPECT_EQ("text/plain", once(request()).answer.content_type);
  EXPECT_EQ("1 1 1", contents());
  EXPECT_EQ("done 201 o-2", text(once(request("{}", "k-2"))));
  EXPECT_EQ("2 2 2", contents());
}

TEST_P(IdempotencySuite, AnAnswerIsKeptByteForByte) {
  const StoredAnswer given{.status = 404, .content_type = "", .body = std::string("\0\xff\\x41'\"\n", 9)};
  for (const std::string& body : {given.body, std::string(), std::string(1024 * 1024, '\xfe')}) {
    StoredAnswer answer = given;
    answer.body = body;
    const IdempotentRequest what = request("{}", std::to_string(body.size()));
    keys.once(*db, what, [&](Connection&) { return answer; });
    const IdempotentResult again = keys.once(*db, what, [&](Connection& line) { return place(line); });
    EXPECT_EQ(Kind::again, again.kind);
    EXPECT_EQ(404, again.answer.status);
    EXPECT_EQ("", again.answer.content_type);
    EXPECT_EQ(body, again.answer.body);
  }
}

TEST_P(IdempotencySuite, Row83_AnotherRequestUnderTheKeyIsRefused) {
  once(request(R"({"amount": 1})"));
  const IdempotentResult other = once(request(R"({"amount": 2})"));
  EXPECT_EQ("other 422", text(other));
  EXPECT_EQ("application/problem+json", other.answer.content_type);
  EXPECT_EQ(422, nlohmann::json::parse(other.answer.body).at("status"));
  EXPECT_EQ("again 201 o-1", text(once(request(R"({"amount": 1})"))));
  EXPECT_EQ("1 1 1", contents());
}

TEST_P(IdempotencySuite, Row83_Security17_TenantsHaveTheirOwnKeys) {
  EXPECT_EQ("done 201 o-1", text(once(request("a", "k", "north"))));
  EXPECT_EQ("done 201 o-2", text(once(request("b", "k", "south"))));
  EXPECT_EQ("done 201 o-3", text(once(request("c", "k"))));
  EXPECT_EQ("again 201 o-1", text(once(request("a", "k", "north"))));
  EXPECT_EQ("again 201 o-2", text(once(request("b", "k", "south"))));
  EXPECT_EQ("again 201 o-3", text(once(request("c", "k", "default"))));
}

TEST_P(IdempotencySuite, Row83_WhatFailsLeavesNothing) {
  const auto fails = [&](Connection& line) -> StoredAnswer {
    place(line);
    throw std::runtime_error("the work's own");
  };
  EXPECT_THROW(keys.once(*db, request(), fails), std::runtime_error);
  EXPECT_EQ("0 0 0", contents());
  EXPECT_EQ("failed 503 o-2", text(once(request(), 503)));
  EXPECT_EQ("0 0 0", contents());
  EXPECT_EQ("done 201 o-3", text(once(request("another body", "k-1")))) << "the key is as new";
  EXPECT_EQ("1 1 1", contents());
}

TEST_P(IdempotencySuite, ARefusalIsAnAnswer) {
  EXPECT_EQ("done 499 o-1", text(once(request(), 499)));
  EXPECT_EQ("again 499 o-1", text(once(request(), 201)));
}

TEST_P(IdempotencySuite, WhatCollidesIsBegunAgainWhole) {
  const IdempotentResult result = keys.once(*db, request(), [&](Connection& line) {
    const StoredAnswer answer = place(line);
    if (executions < 3) throw Collision("in the way");
    return answer;
  });
  EXPECT_EQ("done 201 o-3", text(result));
  EXPECT_EQ("1 1 1", contents());
}

TEST_P(IdempotencySuite, AfterItHasExpiredTheKeyIsAsNew) {
  once(request("a"));
  expire();
  EXPECT_EQ("done 201 o-2", text(once(request("b"))));
  EXPECT_EQ("again 201 o-2", text(once(request("b"))));
  EXPECT_EQ("other 422", text(once(request("a"))));
  EXPECT_EQ("2 2 1", contents());
  expire();
  EXPECT_EQ("failed 500 o-3", text(once(request("c"), 500)));
  EXPECT_EQ("2 2 1", contents());
}

// In two steps, for those who have their transaction: here a unit of work's.
TEST_P(IdempotencySuite, InAUnitOfWork) {
  const StoredAnswer answer{.status = 201, .body = "{}"};
  const auto place_order = [&](const std::string& body) {
    return with_retries(*db, [&](UnitOfWork& work) {
      if (const auto known = keys.begin(work.connection(), request(body))) {
        work.rollback();
        return *known;
      }
      work.add({.topic = "order.placed", .payload = body});
      keys.end(work.connection(), request(body), answer);
      work.commit();
      return IdempotentResult{.kind = Kind::done, .answer = answer};
    });
  };
  EXPECT_EQ("done 201 {}", text(place_order("1")));
  EXPECT_EQ("again 201 {}", text(place_order("1")));
  EXPECT_EQ("other 422", text(place_order("2")));
  EXPECT_EQ("0 1 1", contents());
}

TEST_P(IdempotencySuite, AnAnswerUnderAUsedKeyIsNotWritten) {
  once(request());
  Transaction transaction(*db);
  EXPECT_THROW(keys.end(*db, request(), {}), Collision);
  transaction.rollback();
  EXPECT_EQ("again 201 o-1", text(once(request())));
}

TEST_P(IdempotencySuite, KeysAndAnswersHaveLimits) {
  const std::string longest(255, 'k');
  EXPECT_EQ("done 201 o-1", text(once(request("", longest))));
  EXPECT_EQ("again 201 o-1", text(once(request("", longest))));
  for (const std::string& wrong : {std::string(), longest + "k", std::string("a\0b", 3), std::string("\xff")}) {
    EXPECT_EQ(Remedy::fix_input, refusal([&] { once(request("", wrong)); })) << wrong;
    EXPECT_EQ(Remedy::fix_input, refusal([&] { once({.key = "k", .fingerprint = wrong}); })) << wrong;
  }
  EXPECT_EQ(Remedy::fix_input, refusal([&] { once(request("", "k", longest + "k")); }));
  for (const StoredAnswer& wrong : {StoredAnswer{.status = 99}, StoredAnswer{.content_type = std::string(256, 'x')},
                                    StoredAnswer{.body = std::string(1024 * 1024 + 1, 'x')}})
    EXPECT_EQ(Remedy::fix_input, refusal([&] {
                keys.once(*db, request("", "w"), [&](Connection& line) {
                  place(line);
                  return wrong;
                });
              }));
  EXPECT_EQ("1 1 1", contents()) << "nothing of those";
  EXPECT_EQ(Remedy::fix_input, refusal([&] { keys.begin(*db, request()); })) << "there is no transaction";
  EXPECT_EQ(Remedy::fix_input, refusal([&] { keys.end(*db, request(), {}); }));
}

TEST_P(IdempotencySuite, WhoWaitsGetsTheAnswerOfTheFirst) {
  const IdempotencyKeys patient({.wait = 30s});
  for (const bool commits : {true, false}) {
    const IdempotentRequest what = request("{}", commits ? "committed" : "rolled back");
    auto first = std::make_unique<Transaction>(*db);
    ASSERT_FALSE(keys.begin(*db, what));
    keys.end(*db, what, {.body = "the first's"});
    auto second = std::async(std::launch::async, [&] {
      return patient.once(*connect(url), what, [](Connection&) { return StoredAnswer{.body = "the second's"}; });
    });
    EXPECT_EQ(std::future_status::timeout, second.wait_for(200ms));
    if (commits) first->commit();
    first.reset();
    EXPECT_EQ(commits ? "again 200 the first's" : "done 200 the second's", text(second.get()));
  }
}

// One cannot tell in SQLite who it is that writes; whoever does not get his turn in time is told to come again.
TEST_P(IdempotencySuite, Row83_WhileSomebodyIsAtItOthersAreToldSo) {
  const auto other = connect(url);
  Transaction transaction(*db);
  ASSERT_FALSE(keys.begin(*db, request()));
  if (sqlite()) db->script("INSERT INTO placed VALUES ('o')");
  if (sqlite()) other->script("PRAGMA busy_timeout = 0");
  const auto work = [](Connection&) { return StoredAnswer{.body = "the second's"}; };
  const IdempotentResult running = keys.once(*other, request(), work);
  EXPECT_EQ("running 409", text(running));
  EXPECT_EQ("application/problem+json", running.answer.content_type);
  EXPECT_EQ(409, nlohmann::json::parse(running.answer.body).at("status"));
  EXPECT_EQ("running 409", text(IdempotencyKeys({.wait = 50ms}).once(*other, request(), work)));
  keys.end(*db, request(), {.body = "the first's"});
  transaction.commit();
  EXPECT_EQ("again 200 the first's", text(keys.once(*other, request(), work)));
}

}  // namespace
}  // namespace waybill
