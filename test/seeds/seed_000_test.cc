// Seed 000, "ADR-006: Outbox Pattern": its tests, its runbook, its alerts.

#include "seeds/seed_fixture.h"

namespace waybill {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Seed000 : public SeedTest {
 protected:
  Seed000() {
    app("CREATE TABLE public.event_store (aggregate_id text, event_type text, event_data jsonb, version bigint, "
        "timestamp timestamptz, PRIMARY KEY (aggregate_id, version))");
  }

  // Its SaveAsync(): both tables within one transaction.
  void save(Sql& connection, const std::string& aggregate, int version) {
    connection("INSERT INTO public.event_store (aggregate_id, event_type, event_data, version, timestamp) VALUES ('" +
               aggregate + "', 'PatientCheckedIn', '{\"n\":1}', " + std::to_string(version) + ", now())");
    enqueue(connection.raw(), Event{.topic = "queue.patient-checked-in",
                                    .type = "PatientCheckedIn",
                                    .aggregate = {"waiting-queue", aggregate},
                                    .version = version,
                                    .payload = R"({"n":1})"});
  }
  std::string insert_outbox_message() {
    return enqueue(app.raw(), Event{.topic = "queue.changed",
                                    .type = "PatientCheckedIn",
                                    .aggregate = {"waiting-queue", "q-1"},
                                    .payload = "{}",
                                    .metadata = R"({"source":"test"})"})
        .to_string();
  }
  // So many, each of a key of its own, or of one for all.
  void insert_outbox_messages(int number) {
    app("INSERT INTO event (topic, key, payload) SELECT 'queue.changed', n::text, '{}' FROM generate_series(1, " +
        std::to_string(number) + ") n");
  }
};

TEST_F(Seed000, SaveAsync_Should_WriteToEventStoreAndOutbox_Atomically) {
  app("BEGIN");
  save(app, "q-1", 1);
  EXPECT_EQ("0", Sql(url)("SELECT count(*) FROM waybill.outbox")) << "not before the commit";
  app("COMMIT");
  EXPECT_EQ("PatientCheckedIn", app("SELECT event_type FROM event_store"));
  EXPECT_EQ(1, count("event_store"));
  EXPECT_EQ(1, count("outbox WHERE published = FALSE"));
  EXPECT_EQ("PatientCheckedIn", app("SELECT event_type FROM outbox WHERE published = FALSE"));

  // The second save of the same version fails: neither is there.
  Sql other(url);
  other("BEGIN");
  EXPECT_THROW(save(other, "q-1", 1), std::runtime_error);
  other("ROLLBACK");
  // So it is when the transaction fails after both.
  other("BEGIN");
  save(other, "q-1", 2);
  other("ROLLBACK");
  EXPECT_EQ(1, count("event_store"));
  EXPECT_EQ(1, count("outbox"));
}

TEST_F(Seed000, OutboxProcessor_Should_PublishAndMarkAsPublished) {
  const std::string message_id = insert_outbox_message();
  EXPECT_EQ("f|t", shown(message_id, "published, published_at IS NULL", "outbox"));
  Publisher publisher;
  publish_pending(publisher);
  EXPECT_EQ("t|t|0", shown(message_id, "published, published_at BETWEEN created_at AND now(), retry_count", "outbox"));
  ASSERT_EQ(1U, publisher.published_events.size());
  EXPECT_EQ(message_id, publisher.published_events[0].id);
  publish_pending(publisher);
  EXPECT_EQ(1U, publisher.publish_count) << "what is marked is not published again";
}

// "RabbitMQ downtime handled gracefully; messages queued in DB; automatic retry on recovery."
TEST_F(Seed000, Resilience_RabbitMQ_downtime) {
  Publisher publisher{.should_fail = true, .failure = Outcome::Kind::unavailable, .error = "connection refused"};
  const std::string first = insert_outbox_message();
  const std::string second = insert_outbox_message();
  Relay relay(*store, {.name = "processor"});
  relay.add({.name = "events"}, std::make_unique<PublisherSink>(publisher));
  ASSERT_TRUE(eventually([&] { return relay.step() == 0 && relay.counts("events").breaker.open; }, 30s));
  EXPECT_EQ("connection refused", relay.counts("events").breaker.reason);
  for (const auto& id : {first, second})
    EXPECT_EQ("f|0|NEW", shown(id, "published, retry_count, status", "outbox")) << "an outage is no event's fault";

  publisher.should_fail = false;
  ASSERT_TRUE(eventually([&] { return relay.step() == 0 && count("outbox WHERE published") == 2; }, 30s));
  ASSERT_EQ(2U, publisher.published_events.size());
  EXPECT_EQ(first, publisher.published_events[0].id);
  EXPECT_EQ(second, publisher.published_events[1].id);
}

// "Crash after publish, before marking; consumer must be idempotent": it comes again, under the same id.
TEST_F(Seed000, Duplicate_Messages_Crash_after_publish_before_marking) {
  const std::string message_id = insert_outbox_message();
  Publisher publisher{.answers = false};
  // It stands still from then on, and is not heard of for longer than its lease.
  Relay crashed(*store, {.name = "crashed"});
  crashed.add({.name = "events"}, std::make_unique<PublisherSink>(publisher));
  ASSERT_TRUE(eventually([&] { return crashed.step() == 0 && publisher.publish_count == 1; }, 30s));
  EXPECT_EQ("f", shown(message_id, "published", "outbox"));
  app("UPDATE relay SET alive_until = clock_timestamp() - interval '1 s'");
  publisher.answers = true;
  publish_pending(publisher);
  ASSERT_EQ(2U, publisher.published_events.size());
  for (const auto& event : publisher.published_events) EXPECT_EQ(message_id, event.id);
  EXPECT_EQ("t", shown(message_id, "published", "outbox"));
}

TEST_F(Seed000, Alert_Unpublished_over_1000) {
  Publisher publisher;
  publish_pending(publisher);
  insert_outbox_messages(1'000);
  EXPECT_THAT(alerts(), Not(Contains("backlog")));
  insert_outbox_message();
  EXPECT_THAT(alerts(), Contains("backlog"));
}

TEST_F(Seed000, Alert_Publish_lag_over_60s) {
  Publisher publisher;
  publish_pending(publisher);
  app("INSERT INTO event (topic, payload, created_at) VALUES ('t', '{}', clock_timestamp() - interval '20 s')");
  EXPECT_THAT(alerts(), Not(Contains("late")));
  app("INSERT INTO event (topic, payload, created_at) VALUES ('t', '{}', clock_timestamp() - interval '61 s')");
  EXPECT_THAT(alerts(), Contains("late"));
}

TEST_F(Seed000, Alert_Retry_count_over_10) {
  const std::string message_id = insert_outbox_message();
  Publisher publisher{.should_fail = true};
  publish_pending(publisher, 10, 12);
  EXPECT_EQ("10", shown(message_id, "retry_count", "outbox"));
  EXPECT_THAT(alerts(), Not(Contains("attempts")));
  publish_pending(publisher, 1, 12);
  EXPECT_THAT(alerts(), Contains("attempts"));
}

TEST_F(Seed000, Monitoring) {
  Publisher publisher{.should_fail = true, .failure = Outcome::Kind::rejected};
  insert_outbox_message();
  publish_pending(publisher);
  publisher.failure = Outcome::Kind::retry;
  insert_outbox_messages(2);
  publish_pending(publisher);
  app("INSERT INTO event (topic, payload, created_at) VALUES ('t', '{}', clock_timestamp() - interval '30 s')");
  insert_outbox_message();

  const auto destination = waybill("status").at("destinations").at(0);
  EXPECT_EQ(2, destination["pending"]["value"]) << "outbox size";
  EXPECT_THAT(destination["oldest_pending_age_seconds"].get<int>(), testing::AllOf(testing::Ge(30), testing::Lt(60)));
  EXPECT_EQ(1, destination["undelivered"]["dead"]["value"]) << "dead letter queue size";
  EXPECT_EQ("0: 2, 1: 3", app("SELECT string_agg(retry_count || ': ' || n, ', ' ORDER BY retry_count) FROM (SELECT "
                              "retry_count, count(*) AS n FROM outbox WHERE published = FALSE GROUP BY retry_count) x"))
      << "retry count distribution";
}

TEST_F(Seed000, Debugging_1_Events_not_appearing_in_projections) {
  const std::string query = "SELECT * FROM outbox WHERE published = FALSE ORDER BY created_at";
  Publisher publisher;
  insert_outbox_message();
  publish_pending(publisher);
  EXPECT_THAT(app.column(query), IsEmpty());
  const std::string first = insert_outbox_message();
  const std::string second = insert_outbox_message();
  EXPECT_THAT(app.column(query), testing::ElementsAre(first, second));
}

TEST_F(Seed000, Debugging_2_Outbox_growing_unbounded) {
  insert_outbox_message();
  Publisher publisher;
  publish_pending(publisher);
  eight_days_pass();
  const std::string unpublished = insert_outbox_message();
  const std::string cleanup = "DELETE FROM outbox WHERE published = TRUE AND published_at < NOW() - INTERVAL '7 days'";
  EXPECT_THAT(said_to(cleanup), HasSubstr("waybill clean"));
  EXPECT_EQ(2, count("outbox"));
  EXPECT_EQ(1, waybill("clean").at("events").at("value"));
  EXPECT_EQ(unpublished, app("SELECT id FROM outbox"));
}

TEST_F(Seed000, Debugging_3_High_retry_count) {
  const std::string query = "SELECT * FROM outbox WHERE retry_count > 5";
  const std::string message_id = insert_outbox_message();
  Publisher publisher{.should_fail = true, .error = "unknown field 'n'"};
  publish_pending(publisher, 5, 12);
  EXPECT_THAT(app.column(query), IsEmpty());
  publish_pending(publisher, 1, 12);
  EXPECT_THAT(app.column(query), testing::ElementsAre(message_id));
  EXPECT_EQ("6|unknown field 'n'", shown(message_id, "retry_count, error_message", "outbox"));
}

}  // namespace
}  // namespace waybill
