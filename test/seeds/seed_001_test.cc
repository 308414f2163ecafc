// Seed 001, "ADR 022: Outbox Pattern Implementation": its tests, and what its store's methods and its user service do.

#include "seeds/seed_fixture.h"

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Seed001 : public SeedTest {
 protected:
  Seed001() {
    app("CREATE TABLE public.users (id text PRIMARY KEY, email text, name text, created_at timestamptz, updated_at "
        "timestamptz)");
  }

  // Its TestDomainEvent.
  static Event domain_event(const std::string& aggregate_id, const std::string& event_type) {
    return {.topic = "user",
            .type = event_type,
            .aggregate = {"user", aggregate_id},
            .payload = R"({"email":"test@example.com","name":"Test User"})",
            .metadata = R"({"source":"test"})"};
  }
  std::string save_event(const std::string& aggregate_id, const std::string& event_type) {
    app("BEGIN");
    const EventId id = enqueue(app.raw(), domain_event(aggregate_id, event_type));
    app("COMMIT");
    return id.to_string();
  }
  std::vector<std::string> prepared(const std::string& query, const std::string& arguments) {
    app("DEALLOCATE ALL");
    app("PREPARE query AS " + query);
    return app.column("EXECUTE query(" + arguments + ")");
  }

  static constexpr const char* get_pending_events = R"(
        SELECT id, aggregate_id, aggregate_type, event_type, event_data, 
               metadata, status, version, created_at, published_at, failed_at,
               retry_count, max_retries, last_error, next_retry_at
        FROM outbox_events 
        WHERE status IN ('pending', 'failed') 
        AND (next_retry_at IS NULL OR next_retry_at <= NOW())
        ORDER BY created_at ASC
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    )";
  static constexpr const char* get_events_by_aggregate = R"(
        SELECT id, aggregate_id, aggregate_type, event_type, event_data, 
               metadata, status, version, created_at, published_at, failed_at,
               retry_count, max_retries, last_error, next_retry_at
        FROM outbox_events 
        WHERE aggregate_type = $1 AND aggregate_id = $2
        ORDER BY created_at ASC
    )";
};

TEST_F(Seed001, TestOutbox_SaveAndPublishEvents_save_and_publish_event) {
  Publisher publisher;
  save_event("user-123", "user.created");
  publish_pending(publisher, 3);
  EXPECT_EQ(1U, publisher.publish_count);
  EXPECT_EQ("user-123", publisher.last_event.aggregate_id);
  EXPECT_EQ("user.created", publisher.last_event.event_type);
  EXPECT_EQ(R"({"email":"test@example.com","name":"Test User"})", publisher.last_event.event_data);
}

TEST_F(Seed001, TestOutbox_SaveAndPublishEvents_retry_failed_events) {
  Publisher publisher{.should_fail = true};
  const std::string id = save_event("user-456", "user.updated");

  // First attempt should fail. No error returned, but event should be marked as failed.
  publish_pending(publisher, 3);
  EXPECT_EQ(1U, publisher.publish_count);
  EXPECT_EQ("failed|1|publisher failure|t",
            shown(id, "status, retry_count, last_error, failed_at IS NOT NULL", "outbox_events"));

  publisher.should_fail = false;
  time_passes();
  // Retry should succeed.
  publish_pending(publisher, 3);
  EXPECT_EQ(2U, publisher.publish_count);
  EXPECT_EQ("published", shown(id, "status", "outbox_events"));
}

TEST_F(Seed001, SaveEvents) {
  app("BEGIN");
  const std::vector<Event> events{domain_event("user-1", "user.created"), domain_event("user-1", "user.updated"),
                                  domain_event("user-2", "user.created")};
  enqueue(app.raw(), events);
  EXPECT_EQ("0", Sql(url)("SELECT count(*) FROM waybill.outbox_events"));
  app("COMMIT");
  EXPECT_EQ("user-1 user.created, user-1 user.updated, user-2 user.created",
            app("SELECT string_agg(aggregate_id || ' ' || event_type, ', ' ORDER BY created_at) FROM outbox_events "
                "WHERE status = 'pending' AND aggregate_type = 'user' AND metadata ->> 'source' = 'test'"));
}

// publishEvent(): "Not time to retry yet".
TEST_F(Seed001, PublishEvent_not_time_to_retry_yet) {
  Publisher publisher{.should_fail = true};
  const std::string id = save_event("user-1", "user.created");
  publish_pending(publisher, 3);
  EXPECT_EQ("t", shown(id, "next_retry_at > now()", "outbox_events"));
  publish_pending(publisher, 3);
  EXPECT_EQ(1U, publisher.publish_count);
}

TEST_F(Seed001, HandlePublishError_max_retries_reached_move_to_dead_letter) {
  Publisher publisher{.should_fail = true};
  const std::string id = save_event("user-1", "user.created");
  publish_pending(publisher, 2, 3);
  EXPECT_EQ("failed|2", shown(id, "status, retry_count", "outbox_events"));
  publish_pending(publisher, 1, 3);
  EXPECT_EQ("dead_letter|3|publisher failure", shown(id, "status, retry_count, last_error", "outbox_events"));
  publish_pending(publisher, 1, 3);
  EXPECT_EQ(3U, publisher.publish_count);
}

TEST_F(Seed001, MaxRetries_of_the_event) {
  Event event = domain_event("user-1", "user.created");
  event.attempts_max = 1;
  const std::string id = enqueue(app.raw(), event).to_string();
  EXPECT_EQ("1", shown(id, "max_retries", "outbox_events"));
  Publisher publisher{.should_fail = true};
  publish_pending(publisher, 3);
  EXPECT_EQ("dead_letter|1", shown(id, "status, retry_count", "outbox_events"));
}

TEST_F(Seed001, GetPendingEvents) {
  Publisher publisher{.should_fail = true, .only = "user-2"};
  save_event("user-1", "user.created");
  const std::string failed = save_event("user-2", "user.created");
  publish_pending(publisher);
  const std::string pending = save_event("user-3", "user.created");
  save_event("user-4", "user.created");
  EXPECT_EQ(pending, prepared(get_pending_events, "10").at(0)) << "the failed one is not due";
  time_passes();
  EXPECT_THAT(prepared(get_pending_events, "2"), ElementsAre(failed, pending));
}

TEST_F(Seed001, GetEventsByAggregate) {
  Publisher publisher;
  const std::string created = save_event("user-1", "user.created");
  publish_pending(publisher);
  save_event("user-2", "user.created");
  const std::string updated = save_event("user-1", "user.updated");
  EXPECT_THAT(prepared(get_events_by_aggregate, "'user', 'user-1'"), ElementsAre(created, updated));
  EXPECT_THAT(prepared(get_events_by_aggregate, "'order', 'user-1'"), IsEmpty());
}

// What marks is the relay. Whoever would do it by hand is told what to call.
TEST_F(Seed001, MarkPublished_MarkFailed_MarkDeadLetter) {
  const std::string id = save_event("user-1", "user.created");
  for (const char* query : {R"(
        UPDATE outbox_events 
        SET status = 'published', published_at = NOW(), version = version + 1
        WHERE id = $1
    )",
                            R"(
        UPDATE outbox_events 
        SET status = 'failed', 
            failed_at = NOW(), 
            retry_count = retry_count + 1,
            last_error = $2,
            next_retry_at = $3,
            version = version + 1
        WHERE id = $1
    )",
                            R"(
        UPDATE outbox_events 
        SET status = 'dead_letter', version = version + 1
        WHERE id = $1
    )"}) {
    SCOPED_TRACE(query);
    app("DEALLOCATE ALL");
    app(std::string("PREPARE mark AS ") + query);
    const bool three = std::string(query).find("$3") != std::string::npos;
    EXPECT_THAT(said_to("EXECUTE mark('" + id + (three ? "', 'error', now())" : "')")), HasSubstr("waybill.redrive("));
  }
  EXPECT_EQ("pending", shown(id, "status", "outbox_events"));
}

TEST_F(Seed001, CreateUser) {
  const auto create = [&](Sql& connection, const std::string& id) {
    connection("BEGIN");
    connection("INSERT INTO public.users (id, email, name, created_at, updated_at) VALUES ('" + id +
               "', 'a@example.com', 'A', now(), now())");
    enqueue(connection.raw(), domain_event(id, "user.created"));
    connection("COMMIT");
  };
  create(app, "user-1");
  EXPECT_EQ("user-1", app("SELECT aggregate_id FROM outbox_events JOIN public.users u ON u.id = aggregate_id"));
  Sql other(url);
  EXPECT_THROW(create(other, "user-1"), std::runtime_error) << "there is such a user";
  other("ROLLBACK");
  EXPECT_EQ(1, count("outbox_events"));
}

// Two updates of one user: the row lock orders them, and so they arrive.
TEST_F(Seed001, UpdateUser) {
  app("INSERT INTO public.users VALUES ('user-1', 'a@example.com', 'A', now(), now())");
  Sql first(url);
  first("BEGIN");
  first("SELECT id, email, name, created_at, updated_at FROM public.users WHERE id = 'user-1' FOR UPDATE");
  std::jthread second([&] {
    Sql sql(url);
    sql("BEGIN");
    sql("SELECT id, email, name, created_at, updated_at FROM public.users WHERE id = 'user-1' FOR UPDATE");
    enqueue(sql.raw(), domain_event("user-1", "user.renamed"));
    sql("COMMIT");
  });
  ASSERT_TRUE(eventually([&] { return count("pg_locks WHERE NOT granted") > 0; }, 30s));
  enqueue(first.raw(), domain_event("user-1", "user.updated"));
  first("COMMIT");
  second.join();
  Publisher publisher;
  publish_pending(publisher);
  ASSERT_EQ(2U, publisher.published_events.size());
  EXPECT_EQ("user.updated", publisher.published_events[0].event_type);
  EXPECT_EQ("user.renamed", publisher.published_events[1].event_type);
}

// "Use ordered processing per aggregate."
TEST_F(Seed001, Ordered_processing_per_aggregate) {
  Publisher publisher{.should_fail = true, .only = "user-1"};
  const std::string created = save_event("user-1", "user.created");
  const std::string updated = save_event("user-1", "user.updated");
  const std::string other = save_event("user-2", "user.created");
  publish_pending(publisher);
  ASSERT_EQ(1U, publisher.published_events.size()) << "no other aggregate waits";
  EXPECT_EQ(other, publisher.published_events[0].id);
  publisher.should_fail = false;
  time_passes();
  publish_pending(publisher);
  ASSERT_EQ(3U, publisher.published_events.size());
  EXPECT_EQ(created, publisher.published_events[1].id);
  EXPECT_EQ(updated, publisher.published_events[2].id);
}

}  // namespace
}  // namespace waybill
