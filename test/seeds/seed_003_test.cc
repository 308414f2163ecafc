// Seed 003, "40. Outbox Pattern pour la publication fiable d'événements": its scenarios of failure, and what its
// processor, its cleanup and its dead letter service do.

#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

#include "seeds/seed_fixture.h"

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Seed003 : public SeedTest {
 protected:
  Seed003() { app("CREATE TABLE public.tenant (id text PRIMARY KEY, name text)"); }

  // Its SaveTenantAsync(), with the outbox.
  static std::string save_tenant(Sql& connection, const std::string& id) {
    connection("BEGIN");
    connection("INSERT INTO public.tenant VALUES ('" + id + "', 'Tenant')");
    const EventId event = enqueue(connection.raw(), Event{.topic = "tenant.created",
                                                          .type = "TenantCreated",
                                                          .aggregate = {"tenant", id},
                                                          .payload = R"({"tenantId":")" + id + R"("})"});
    connection("COMMIT");
    return event.to_string();
  }

  // Runs it in a process of its own, which is killed at the end of it.
  static void in_a_process_that_crashes(const std::function<void()>& doing) {
    const pid_t child = ::fork();
    ASSERT_NE(-1, child);
    if (child == 0) {
      try {
        doing();
        ::kill(::getpid(), SIGKILL);
      } catch (const std::exception&) {
        ::_exit(1);
      }
    }
    int status = 0;
    ASSERT_EQ(child, ::waitpid(child, &status, 0));
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
};

// SCÉNARIO 1 : Broker down. "Données OK, Événement PERDU": not so.
TEST_F(Seed003, SCENARIO_1_Broker_down) {
  Publisher broker{.should_fail = true, .failure = Outcome::Kind::unavailable, .error = "down"};
  Relay relay(*store, {.name = "processor"});
  relay.add({.name = "events"}, std::make_unique<PublisherSink>(broker));
  const std::string id = save_tenant(app, "t-1");
  ASSERT_TRUE(eventually([&] { return relay.step() == 0 && relay.counts("events").breaker.open; }, 30s));
  EXPECT_EQ(1, count("public.tenant"));
  EXPECT_EQ("f", shown(id, "published", "outbox"));
  broker.should_fail = false;
  ASSERT_TRUE(eventually([&] { return relay.step() == 0 && broker.published_events.size() == 1; }, 30s));
  EXPECT_EQ(id, broker.published_events[0].id);
}

// SCÉNARIO 2 : Crash après DB commit. "Événement jamais publié": not so.
TEST_F(Seed003, SCENARIO_2_Crash_apres_DB_commit) {
  in_a_process_that_crashes([&] {
    Sql application(url);
    save_tenant(application, "t-1");
  });
  Publisher broker;
  publish_pending(broker);
  ASSERT_EQ(1U, broker.published_events.size());
  EXPECT_EQ("t-1", broker.published_events[0].aggregate_id);

  // And before the commit there is neither.
  in_a_process_that_crashes([&] {
    Sql application(url);
    application("BEGIN; INSERT INTO public.tenant VALUES ('t-2', 'Tenant')");
    enqueue(application.raw(), make_event("x"));
  });
  publish_pending(broker);
  EXPECT_EQ(1U, broker.publish_count);
  EXPECT_THAT(app.column("SELECT id FROM public.tenant"), ElementsAre("t-1"));
}

TEST_F(Seed003, MarkAsProcessed) {
  Publisher broker{.should_fail = true};
  const std::string id = save_tenant(app, "t-1");
  publish_pending(broker);
  broker.should_fail = false;
  publish_pending(broker, 1, 3);
  EXPECT_EQ("t|t|t", shown(id, "published, published_at IS NOT NULL, error_message IS NULL", "outbox"));
}

TEST_F(Seed003, MarkAsFailed) {
  Publisher broker{.should_fail = true, .error = std::string(3'000, 'e')};
  const std::string id = save_tenant(app, "t-1");
  publish_pending(broker, 2, 3);
  EXPECT_EQ("2|f|t", shown(id, "retry_count, published, octet_length(error_message) BETWEEN 1 AND 2000", "outbox"))
      << "HasMaxLength(2000)";
}

// One that fails does not keep the others of a batch.
TEST_F(Seed003, OutboxProcessor) {
  Publisher broker{.should_fail = true, .only = "t-2"};
  const std::string first = save_tenant(app, "t-1");
  const std::string second = save_tenant(app, "t-2");
  const std::string third = save_tenant(app, "t-3");
  publish_pending(broker);
  EXPECT_EQ(3U, broker.publish_count);
  EXPECT_THAT(app.column("SELECT id FROM outbox WHERE published ORDER BY created_at"), ElementsAre(first, third));
  EXPECT_THAT(app.column("SELECT id FROM outbox WHERE NOT published"), ElementsAre(second));
}

// After seven days what is processed goes, and nothing else.
TEST_F(Seed003, OutboxCleanupService) {
  Publisher broker;
  const std::string processed = save_tenant(app, "t-1");
  publish_pending(broker);
  EXPECT_EQ(0, waybill("clean").at("events").at("value")) << "too young";
  eight_days_pass();
  // Of the same age, and not processed: it keeps what is with it.
  app("INSERT INTO event (topic, payload, created_at, slot) SELECT 'late', '{}', created_at, slot FROM event");
  const auto held = waybill("clean");
  EXPECT_EQ(0, held.at("events").at("value"));
  EXPECT_EQ(1U, held.at("held_back").size());
  publish_pending(broker);
  const std::string unprocessed = save_tenant(app, "t-2");
  EXPECT_EQ(2, waybill("clean").at("events").at("value"));
  EXPECT_THAT(app.column("SELECT id FROM outbox"), ElementsAre(unprocessed));
}

// MaxRetries = 3. The dead letter has all that the message had.
TEST_F(Seed003, OutboxDeadLetterService) {
  Publisher broker{.should_fail = true, .error = "Unknown event type"};
  const std::string id = save_tenant(app, "t-1");
  publish_pending(broker, 2, 3);
  EXPECT_THAT(waybill("dead list").at("events"), IsEmpty());
  publish_pending(broker, 1, 3);
  const auto dead = waybill("dead list --payload").at("events");
  ASSERT_EQ(1U, dead.size());
  EXPECT_EQ(id, dead[0]["event"]["id"]) << "OriginalMessageId";
  EXPECT_EQ("TenantCreated", dead[0]["event"]["type"]);
  EXPECT_EQ("t-1", dead[0]["event"]["payload"]["tenantId"]);
  EXPECT_EQ("Unknown event type", dead[0]["error"]);
  EXPECT_EQ(3, dead[0]["attempts"]);
  EXPECT_LT(dead[0]["event"]["created_at"].get<std::string>(), dead[0]["since"].get<std::string>()) << "DeadLetteredAt";

  // It outlives the message.
  eight_days_pass();
  EXPECT_EQ(1, waybill("clean").at("events").at("value"));
  EXPECT_EQ(0, count("event"));
  EXPECT_EQ("t-1", waybill("dead list --payload").at("events").at(0)["event"]["payload"]["tenantId"]);
}

// Its OutboxOptions, as the program reads them.
TEST_F(Seed003, OutboxOptions) {
  const auto settings = waybill(
                            "config show --set poll_idle=5s --set batch=100 --set retry.attempts=3 "
                            "--set clean_interval=1h --set retention=7d")
                            .at("settings");
  const auto value = [&](const std::string& key) -> std::string {
    for (const auto& each : settings)
      if (each.at("key") == key)
        return each.at("value").is_string() ? each.at("value") : nlohmann::json(each.at("value").dump());
    return "no such key";
  };
  EXPECT_EQ("5s", value("poll_idle")) << "PollingInterval";
  EXPECT_EQ("100", value("batch")) << "BatchSize";
  EXPECT_EQ("3", value("retry.attempts")) << "MaxRetries";
  EXPECT_EQ("1h", value("clean_interval"));
  EXPECT_EQ("7d", value("retention")) << "RetentionPeriod";
}

}  // namespace
}  // namespace waybill
