// What a consumer does with messages, whatever broker they come from, on every database.

#include <thread>

#include "waybill/consume.h"
#include "waybill/enqueue.h"
#include "waybill/projection.h"

#include "consume/scripted_source.h"
#include "service/databases.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Step = Consumer::Step;

struct Paid {
  static constexpr std::string_view type_name = "order.paid";
  std::string order{};
  std::string to_json() const { return '"' + order + '"'; }
  static Paid from_json(std::string_view json) { return {.order = std::string(json)}; }
};

class ConsumerSuite : public DatabaseTest {
 protected:
  ConsumerSuite() { db->script("CREATE TABLE effect (message text NOT NULL)"); }

  static Incoming message(const std::string& id, const std::string& key = "", const std::string& tenant = "default") {
    Incoming incoming{.id = id,
                      .headers = {{"ce-specversion", "1.0"},
                                  {"ce-id", id},
                                  {"ce-type", "order.paid"},
                                  {"ce-sequence", "0000000000000000001"},
                                  {"ce-datacontenttype", "application/json"}},
                      .body = R"("a secret")",
                      .address = "orders"};
    if (!key.empty()) incoming.headers.push_back({"ce-partitionkey", key});
    if (tenant != "default") incoming.headers.push_back({"ce-tenant", tenant});
    return incoming;
  }

  static ConsumerOptions quick(int attempts = 3) {
    return {.name = "billing", .attempts = attempts, .first_delay = 1ms, .max_delay = 2ms};
  }
  Consumer consumer(HandleDelivery handle, ConsumerOptions options = quick()) {
    return {std::move(options), *db, std::make_unique<ScriptedSource>(script), std::move(handle), log()};
  }
  Log log() {
    return Log([this](LogLevel, std::string_view text, std::span<const LogField> fields) {
      logged += text;
      for (const auto& field : fields) (logged += ' ').append(field.name).append("=").append(field.value);
      logged += '\n';
    });
  }

  // Until it has nothing left to do; in letters, without what it did when it had nothing to do.
  static std::string all(Consumer& consumer) {
    std::string steps;
    const Steady end = std::chrono::steady_clock::now() + 60s;
    do {
      const Step step = consumer.step(std::chrono::steady_clock::now());
      if (step == Step::idle) std::this_thread::sleep_for(1ms);
      steps += step == Step::handled     ? "h"
               : step == Step::duplicate ? "d"
               : step == Step::failed    ? "f"
               : step == Step::rejected  ? "r"
                                         : "";
    } while (consumer.counts().waiting > 0 && std::chrono::steady_clock::now() < end);
    return steps;
  }

  static void take_effect(Connection& line, const Delivery& delivery) {
    line.run("INSERT INTO effect (message) VALUES ($1)", delivery.id);
  }
  std::string effects() {
    std::string found;
    const Rows rows = db->run("SELECT message FROM effect ORDER BY message");
    for (std::size_t i = 0; i < rows.size(); ++i) found += rows.text(i, 0) + " ";
    return found;
  }

  ScriptedSource::Script script;
  std::string logged;
};

INSTANTIATE_TEST_SUITE_P(Databases, ConsumerSuite, every_database, database_name);

TEST_P(ConsumerSuite, AcknowledgesAfterTheCommit) {
  const auto another = connect(url);
  script.on_accept = [&] { EXPECT_EQ(1, another->run("SELECT count(*) FROM effect").integer(0, 0)); };
  script.bring(message("m-1"));
  Consumer tested = consumer(take_effect);
  EXPECT_EQ("h", all(tested));
  EXPECT_THAT(script.accepted, ElementsAre("m-1"));
}

TEST_P(ConsumerSuite, Row84_ADuplicateIsAcknowledgedAndRunsNothing) {
  for (int i = 0; i < 3; ++i) script.bring(message("m-1"));
  script.bring(message("m-2"));
  Consumer tested = consumer(take_effect);
  EXPECT_EQ("hddh", all(tested));
  EXPECT_EQ("m-1 m-2 ", effects());
  EXPECT_THAT(script.accepted, ElementsAre("m-1", "m-1", "m-1", "m-2"));
  const ConsumerCounts counts = tested.counts();
  EXPECT_EQ(4U, counts.received);
  EXPECT_EQ(2U, counts.handled);
  EXPECT_EQ(2U, counts.duplicates);
}

TEST_P(ConsumerSuite, Row80_WhatFailsIsTriedAgainAndThenGivenUp) {
  int calls = 0;
  std::string told;
  ConsumerOptions options = quick(3);
  options.on_failure = [&](const Delivery& delivery, const std::exception& failure) {
    told += delivery.id + ":" + std::to_string(delivery.attempts) + ":" + failure.what() + " ";
  };
  Consumer tested = consumer(
      [&](Connection& line, const Delivery& delivery) {
        take_effect(line, delivery);
        ++calls;
        throw std::runtime_error("it says " + delivery.event.payload);
      },
      options);
  script.bring(message("m-1"));
  EXPECT_EQ("ffr", all(tested));
  EXPECT_EQ(3, calls);
  EXPECT_EQ("", effects());
  EXPECT_EQ(0, count(table("inbox"))) << "it may be sent again";
  EXPECT_THAT(script.rejected, ElementsAre("m-1: std::runtime_error"));
  EXPECT_THAT(logged, HasSubstr("a message is given up consumer=billing message=m-1 type=order.paid"));
  EXPECT_THAT(logged, Not(HasSubstr("secret")));
  EXPECT_EQ(R"(m-1:1:it says "a secret" m-1:2:it says "a secret" m-1:3:it says "a secret" )", told);
  EXPECT_EQ(3U, tested.counts().failed);
  EXPECT_EQ(1U, tested.counts().rejected);
}

TEST_P(ConsumerSuite, WhatFailsAndThenWorksIsHandledOnce) {
  int calls = 0;
  Consumer tested = consumer([&](Connection& line, const Delivery& delivery) {
    take_effect(line, delivery);
    if (++calls < 3) throw Error(Remedy::retry, "not yet");
  });
  script.bring(message("m-1"));
  EXPECT_EQ("ffh", all(tested));
  EXPECT_EQ("m-1 ", effects());
  EXPECT_THAT(logged, HasSubstr("error=not yet")) << "an Error's own text holds no payload";
}

TEST_P(ConsumerSuite, WhatTheHandlerRejectsIsGivenUpAtOnce) {
  Consumer tested = consumer([](Connection&, const Delivery&) { throw Rejection("not for us"); });
  script.bring(message("m-1"));
  EXPECT_EQ("r", all(tested));
  EXPECT_THAT(script.rejected, ElementsAre("m-1: not for us"));
}

TEST_P(ConsumerSuite, AnUnknownTypeIsAFailureUnlessOneIgnoresIt) {
  EventHandlers<Connection&> handlers;
  handlers.on<Paid>([](const Paid&, const RecordedEvent& event, Connection& line) {
    line.run("INSERT INTO effect (message) VALUES ($1)", event.type);
  });
  Incoming unknown = message("m-2");
  unknown.headers[2].value = "order.sent";
  {
    script.bring(message("m-1"));
    script.bring(unknown);
    Consumer tested = consumer(by_type(handlers));
    EXPECT_EQ("hr", all(tested));
    ASSERT_EQ(1U, script.rejected.size());
    EXPECT_THAT(script.rejected[0], HasSubstr("order.sent"));
  }
  handlers.ignore_others();
  script.bring(unknown);
  Consumer tested = consumer(by_type(handlers));
  EXPECT_EQ("h", all(tested));
  EXPECT_EQ("order.paid ", effects());
}

TEST_P(ConsumerSuite, WhatAProjectionDoesNotKnowOrRejectsIsGivenUpAtOnce) {
  Projection paid{.name = "paid", .ddl = "CREATE TABLE paid_order (message text)"};
  paid.handlers.on<Paid>([](const Paid&, const RecordedEvent&, Connection&) { throw Rejection("not for us"); });
  make_tables(*db, paid);
  Consumer tested =
      consumer([&](Connection& line, const Delivery& delivery) { waybill::handle(line, paid, delivery.event); });
  Incoming unknown = message("m-2");
  unknown.headers[2].value = "order.sent";
  script.bring(message("m-1"));
  script.bring(unknown);
  EXPECT_EQ("rr", all(tested));
  EXPECT_THAT(script.rejected, ElementsAre("m-1: not for us", HasSubstr("order.sent")));
}

// Such as one in a stream that the handler reads: a later version may know it.
TEST_P(ConsumerSuite, AnUnknownTypeOfAnotherEventIsTriedAgain) {
  Consumer tested = consumer([](Connection&, const Delivery&) { throw UnknownType("order.sent"); });
  script.bring(message("m-1"));
  EXPECT_EQ("ffr", all(tested));
}

TEST_P(ConsumerSuite, WhatCannotBeReadIsGivenUp) {
  script.bring({.id = "m-1", .content_type = "application/cloudevents+json", .body = "a secret"});
  script.bring({.body = "no id"});
  Consumer tested = consumer(take_effect);
  EXPECT_EQ("rr", all(tested));
  EXPECT_THAT(script.accepted, IsEmpty());
  EXPECT_THAT(logged, Not(HasSubstr("secret")));
}

// Whoever would lose what he rejects does not.
TEST_P(ConsumerSuite, NothingIsGivenUpWhereItWouldBeLost) {
  script.keeps_rejected = false;
  int calls = 0;
  Consumer tested = consumer([&](Connection& line, const Delivery& delivery) {
    if (++calls < 10) throw Rejection("never");
    take_effect(line, delivery);
  });
  script.bring(message("m-1"));
  EXPECT_EQ("fffffffffh", all(tested));
  EXPECT_THAT(script.rejected, IsEmpty());
  EXPECT_THAT(logged, HasSubstr("not be given up"));
}

TEST_P(ConsumerSuite, WhatFailedIsNotOvertakenByItsKey) {
  int failures = 0;
  std::string order;
  Consumer tested = consumer([&](Connection&, const Delivery& delivery) {
    if (delivery.id == "a-1" && ++failures <= 2) throw std::runtime_error("not yet");
    order += delivery.id + " ";
  });
  for (const char* id : {"a-1", "a-2", "b-1", "a-3", "b-2"}) script.bring(message(id, std::string(1, id[0])));
  const std::string steps = all(tested);
  EXPECT_EQ(7U, steps.size()) << steps;
  EXPECT_LT(order.find("a-1"), order.find("a-2"));
  EXPECT_LT(order.find("a-2"), order.find("a-3"));
  EXPECT_LT(order.find("b-1"), order.find("b-2"));
  EXPECT_EQ('f', steps[0]);
}

// Whether it is the message or the setup that is wrong is told by whether others get through.
TEST_P(ConsumerSuite, WhatAPersonMustMendCountsOnlyIfOthersGetThrough) {
  bool granted = false;
  Consumer tested = consumer([&](Connection&, const Delivery& delivery) {
    if (delivery.id == "a-1" && !granted) throw Error(Remedy::fix_config, "no permission");
  });
  script.bring(message("a-1", "a"));
  std::string steps;
  const auto step = [&] {
    std::this_thread::sleep_for(3ms);
    return tested.step(std::chrono::steady_clock::now());
  };
  for (int i = 0; i < 20; ++i) EXPECT_NE(Step::rejected, step()) << "alone it waits";
  for (int i = 0; i < 3; ++i) {
    script.bring(message("b-" + std::to_string(i), "b"));
    while (tested.counts().handled == static_cast<std::uint64_t>(i)) step();
    for (int j = 0; j < 3; ++j) step();
  }
  EXPECT_THAT(script.rejected, ElementsAre("a-1: no permission"));
}

TEST_P(ConsumerSuite, Row84_WhileTheInboxIsAwayNothingIsTriedAndNothingCounts) {
  int calls = 0;
  Consumer tested = consumer(
      [&](Connection& line, const Delivery& delivery) {
        ++calls;
        take_effect(line, delivery);
      },
      quick(1));
  db->script("ALTER TABLE " + table("inbox") + " RENAME TO elsewhere");
  script.bring(message("m-1"));
  script.bring(message("m-2"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Step::idle, tested.step(std::chrono::steady_clock::now()));
  EXPECT_TRUE(tested.counts().store_away);
  EXPECT_EQ(0U, tested.counts().failed);
  db->script(sqlite() ? "ALTER TABLE elsewhere RENAME TO waybill_inbox"
                      : "ALTER TABLE waybill.elsewhere RENAME TO inbox");
  EXPECT_EQ("hh", all(tested));
  EXPECT_EQ(2, calls);
  EXPECT_FALSE(tested.counts().store_away);
  EXPECT_THAT(logged, HasSubstr("the database cannot be used"));
  EXPECT_THAT(logged, HasSubstr("the database can be used again"));
}

// The inbox takes the others'.
TEST_P(ConsumerSuite, AMessageThatTheInboxRefusesHoldsNobodyUpAndIsGivenUp) {
  db->script(
      sqlite() ? "CREATE TRIGGER refuses BEFORE INSERT ON waybill_inbox WHEN NEW.message_id = 'm-0' BEGIN SELECT "
                 "RAISE(ABORT, 'no'); END"
               : "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE insufficient_privilege; "
                 "END $$; CREATE TRIGGER refuses BEFORE INSERT ON waybill.inbox FOR EACH ROW WHEN (NEW.message_id = "
                 "'m-0') EXECUTE FUNCTION refuse()");
  Consumer tested = consumer(take_effect, quick(2));
  const Steady end = std::chrono::steady_clock::now() + 60s;
  script.bring(message("m-0", "a"));
  for (int i = 1; script.rejected.empty() && std::chrono::steady_clock::now() < end; ++i) {
    script.bring(message("m-" + std::to_string(i), "b"));
    while (tested.counts().handled < static_cast<std::uint64_t>(i) && std::chrono::steady_clock::now() < end)
      tested.step(std::chrono::steady_clock::now() + 1ms);
  }
  ASSERT_EQ(1U, script.rejected.size());
  EXPECT_THAT(script.rejected[0], testing::StartsWith("m-0"));
  EXPECT_GT(tested.counts().handled, 0U);
}

TEST_P(ConsumerSuite, WhatIsGivenUpUnreadDoesNotSayThatTheDatabaseIsBack) {
  Consumer tested = consumer(take_effect);
  db->script("ALTER TABLE " + table("inbox") + " RENAME TO elsewhere");
  script.bring(message("m-1", "a"));
  tested.step(std::chrono::steady_clock::now());
  EXPECT_TRUE(tested.counts().store_away);
  script.bring({.id = "m-2", .content_type = "application/cloudevents+json", .body = "a secret"});
  const Steady end = std::chrono::steady_clock::now() + 60s;
  while (script.rejected.empty() && std::chrono::steady_clock::now() < end)
    tested.step(std::chrono::steady_clock::now() + 1ms);
  EXPECT_THAT(script.rejected, testing::SizeIs(1));
  EXPECT_TRUE(tested.counts().store_away);
  EXPECT_THAT(logged, Not(HasSubstr("can be used again")));
}

TEST_P(ConsumerSuite, WhatWasLostIsForgottenAndComesAgain) {
  int failures = 0;
  Consumer tested = consumer(
      [&](Connection& line, const Delivery& delivery) {
        if (delivery.id == "m-1" && ++failures <= 2) throw std::runtime_error("not yet");
        take_effect(line, delivery);
      },
      quick(3));
  script.bring(message("m-1", "a"));
  script.bring(message("m-2", "a"));
  EXPECT_EQ(Step::failed, tested.step(std::chrono::steady_clock::now()));
  script.lost = true;
  script.bring(message("m-1", "a"));
  EXPECT_EQ(Step::failed, tested.step(std::chrono::steady_clock::now()));
  EXPECT_EQ(1U, tested.counts().waiting) << "the others are somebody else's now";
  EXPECT_EQ(1U, tested.counts().outages);
  EXPECT_EQ("h", all(tested));
  EXPECT_EQ(3, failures) << "what failed before still counts";
}

TEST_P(ConsumerSuite, AMessageIsHandledForItsTenant) {
  Consumer tested = consumer(take_effect);
  script.bring(message("m-1", "", "north"));
  script.bring(message("m-1", "", "south"));
  EXPECT_EQ("hh", all(tested)) << "each tenant's is its own";
  EXPECT_EQ("north", value("SELECT min(tenant) FROM " + table("inbox")));
  EXPECT_EQ("south", value("SELECT max(tenant) FROM " + table("inbox")));
}

TEST_P(ConsumerSuite, AConsumerForOneTenantGivesUpWhatIsOfAnother) {
  ConsumerOptions options = quick();
  options.tenant = "north";
  Consumer tested = consumer(take_effect, options);
  script.bring(message("m-1", "", "north"));
  script.bring(message("m-2"));
  script.bring(message("m-3", "", "south"));
  EXPECT_EQ("hhr", all(tested));
  EXPECT_EQ("north", value("SELECT min(tenant) FROM " + table("inbox"))) << "what tells none is its own";
  EXPECT_THAT(script.rejected[0], HasSubstr("'south'"));
}

TEST_P(ConsumerSuite, WhatFollowsFromAMessageTellsSo) {
  Consumer tested = consumer([](Connection& line, const Delivery&) {
    const EventContextScope here({.source = "billing"});
    Event event{.topic = "billed", .payload = "1"};
    add_context(event);
    enqueue(line, event);
  });
  Incoming incoming = message("m-1");
  incoming.headers.push_back({"correlation-id", "c-1"});
  script.bring(incoming);
  EXPECT_EQ("h", all(tested));
  const std::string metadata = value("SELECT metadata FROM " + table("event"));
  EXPECT_THAT(metadata, HasSubstr("m-1"));
  EXPECT_THAT(metadata, HasSubstr("c-1"));
}

TEST_P(ConsumerSuite, WhatIsNoExceptionIsAFailureToo) {
  Consumer tested = consumer([](Connection&, const Delivery&) { throw 7; }, quick(1));
  script.bring(message("m-1"));
  EXPECT_EQ("r", all(tested));
}

// What only a server does.
class ServerConsumerSuite : public ConsumerSuite {};
INSTANTIATE_TEST_SUITE_P(Servers, ServerConsumerSuite, testing::Values("postgres", "pooled"), database_name);

TEST_P(ServerConsumerSuite, WhatATriggerRaisesIsTheMessagesFault) {
  Consumer tested = consumer(
      [](Connection& line, const Delivery&) { line.script("DO $$ BEGIN RAISE EXCEPTION 'no such room'; END $$"); });
  script.bring(message("m-1"));
  EXPECT_EQ("ffr", all(tested));
  EXPECT_THAT(script.rejected[0], HasSubstr("no such room"));
}

TEST_P(ServerConsumerSuite, WhatDoesNotFitIsNotQuoted) {
  Consumer tested = consumer([](Connection& line, const Delivery& delivery) {
    line.run("INSERT INTO effect (message) VALUES ($1::text::integer)", delivery.event.payload);
  });
  script.bring(message("m-1"));
  EXPECT_EQ("ffr", all(tested));
  EXPECT_THAT(script.rejected[0], HasSubstr("integer"));
  EXPECT_THAT(logged, Not(HasSubstr("secret")));
}

TEST_P(ServerConsumerSuite, ALostConnectionCountsFromTheSecondTimeOn) {
  Consumer tested = consumer(
      [](Connection& line, const Delivery&) { line.run("SELECT pg_terminate_backend(pg_backend_pid())"); }, quick(1));
  script.bring(message("m-1"));
  EXPECT_EQ("fr", all(tested));
}

TEST_P(ConsumerSuite, RunEndsWhenItIsToldTo) {
  std::stop_source stop;
  Consumer tested = consumer([&](Connection& line, const Delivery& delivery) {
    take_effect(line, delivery);
    stop.request_stop();
  });
  script.bring(message("m-1"));
  script.bring(message("m-2"));
  tested.run(stop.get_token());
  EXPECT_THAT(script.accepted, ElementsAre("m-1")) << "what was at hand is finished";
  EXPECT_TRUE(script.closed);
  EXPECT_EQ(0U, tested.counts().waiting);
}

TEST_P(ConsumerSuite, OptionsThatCannotBeAreRefused) {
  const auto with = [&](ConsumerOptions options) {
    return refusal([&] { consumer(take_effect, std::move(options)); });
  };
  EXPECT_EQ(Remedy::fix_input, with({}));
  EXPECT_EQ(Remedy::fix_input, with({.name = "x", .attempts = -1}));
  EXPECT_EQ(Remedy::fix_input, with({.name = "x", .first_delay = 0ms}));
  EXPECT_EQ(Remedy::fix_input, with({.name = "x", .first_delay = 2s, .max_delay = 1s}));
}

}  // namespace
}  // namespace waybill
