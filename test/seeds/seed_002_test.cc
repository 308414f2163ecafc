// Seed 002, "Outbox Pattern for Email Notifications": its objectives, its lifecycle, its recovery, as far as they do
// not need a mail server.

#include <set>
#include <thread>

#include "seeds/seed_fixture.h"

namespace waybill {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class Seed002 : public SeedTest {
 protected:
  Seed002() {
    app("create table public.memos (id uuid primary key default gen_random_uuid(), memo_number_prefix varchar(50) not "
        "null, department_code varchar(50) not null, title varchar(500) not null, purpose text)");
  }

  // Its CreateMemo(): the memo, and what is to be mailed.
  std::string create_memo(Sql& connection, const std::string& memo = EventId::make().to_string()) {
    connection("BEGIN ISOLATION LEVEL SERIALIZABLE");
    connection("INSERT INTO public.memos (id, memo_number_prefix, department_code, title, purpose) VALUES ('" + memo +
               "', 'M', 'IT', 'Title', 'Purpose')");
    const std::string id = send_mail(connection, memo);
    connection("COMMIT");
    return id;
  }
  static std::string send_mail(Sql& connection, const std::string& memo) {
    return enqueue(connection.raw(),
                   Event{.topic = "MEMO_CREATED",
                         .type = "memo.created",
                         .aggregate = {"memo", memo},
                         .payload = R"({"recipient_email":"a@example.com","subject":"Memo Title Created"})",
                         .dedup_key = memo + "-memo.created-a@example.com"})
        .to_string();
  }
};

TEST_F(Seed002, Transactional_safety) {
  const std::string memo = EventId::make().to_string();
  const std::string id = create_memo(app, memo);
  EXPECT_EQ(memo + "|memo.created|a@example.com|MEMO_CREATED|PENDING|0|" + memo + "-memo.created-a@example.com",
            shown(id, "memo_id, event_type, recipient_email, notification_type, status, retry_count, idempotency_key",
                  "email_outbox"));
  Sql other(url);
  EXPECT_THROW(create_memo(other, memo), std::runtime_error);
  other("ROLLBACK");
  EXPECT_EQ(1, count("public.memos"));
  EXPECT_EQ(1, count("email_outbox"));
}

// Those who would write to the table themselves are told what to call.
TEST_F(Seed002, CreateMemo_insert_outbox) {
  app(R"(PREPARE create_memo (text, text, json, text, text, text) AS INSERT INTO email_outbox
         (memo_id, event_type, payload, recipient_email, notification_type, idempotency_key)
         VALUES ($1, $2, $3, $4, $5, $6))");
  EXPECT_THAT(said_to("EXECUTE create_memo('m', 'memo.created', '{}', 'a@example.com', 'MEMO_CREATED', 'k')"),
              HasSubstr("waybill.enqueue("));
}

// "Persist email intents so they survive crashes and process restarts."
TEST_F(Seed002, Guaranteed_delivery) {
  const std::string id = create_memo(app);
  Publisher provider{.should_fail = true};
  publish_pending(provider, 5);
  // Each is a new relay, that knows nothing but what is in the store.
  provider.should_fail = false;
  publish_pending(provider, 1, 5);
  ASSERT_EQ(1U, provider.published_events.size());
  EXPECT_EQ(id, provider.published_events[0].id);
}

// "Combining memo ID, event type, and recipient keeps duplicates out."
TEST_F(Seed002, Idempotent_sending) {
  const std::string memo = EventId::make().to_string();
  const std::string id = create_memo(app, memo);
  EXPECT_EQ(id, send_mail(app, memo)) << "the first one's";
  Publisher provider;
  publish_pending(provider);
  EXPECT_EQ(id, send_mail(app, memo)) << "also when it has been sent";
  publish_pending(provider);
  EXPECT_EQ(1U, provider.publish_count);
  EXPECT_EQ(1, count("email_outbox"));
}

TEST_F(Seed002, Operational_insight) {
  const std::string id = create_memo(app);
  Publisher provider{.should_fail = true, .error = "451 try again later"};
  publish_pending(provider, 2, 5);
  EXPECT_EQ("PENDING|2|451 try again later|t|t|f",
            shown(id,
                  "status, retry_count, error_message, last_attempt_at IS NOT NULL, meta_updated_at IS NOT NULL, "
                  "sent_at IS NOT NULL",
                  "email_outbox"));
  const auto story = waybill("events show " + id).at("destinations").at(0);
  ASSERT_EQ(2U, story.at("attempts").size());
  for (const auto& attempt : story.at("attempts")) EXPECT_EQ("451 try again later", attempt.at("error"));
}

// PENDING → SENDING → SENT, and to FAILED after the fifth attempt.
TEST_F(Seed002, Status_Lifecycle) {
  const std::string id = create_memo(app);
  const std::string hopeless = create_memo(app);
  Sql observer(url);
  std::vector<std::string> under_way;
  Publisher provider{.should_fail = true};
  publish_pending(provider, 5);
  EXPECT_EQ("PENDING|1", shown(id, "status, retry_count", "email_outbox"));

  const std::string before_retry = app("SELECT clock_timestamp()");
  provider.only = app("SELECT memo_id FROM email_outbox WHERE id = '" + hopeless + "'");
  provider.while_publishing = [&] {
    under_way.push_back(
        observer("SELECT status FROM waybill.email_outbox WHERE id = '" + provider.last_event.id + "'"));
  };
  publish_pending(provider, 4, 5);
  EXPECT_THAT(under_way, testing::Each("SENDING"));
  EXPECT_EQ(5U, under_way.size()) << "one of the one, four of the other";
  EXPECT_EQ("SENT|t", shown(id, "status, sent_at > '" + before_retry + "'", "email_outbox"))
      << "sent when it was sent, not when the cursor passed it";
  EXPECT_EQ("FAILED|5|publisher failure", shown(hopeless, "status, retry_count, error_message", "email_outbox"));
}

// "Multiple worker replicas are safe": none is sent by two.
TEST_F(Seed002, Concurrency_no_double_processing) {
  constexpr std::size_t events = 400;
  std::mutex mutex;
  std::vector<std::string> sent;
  const auto work = [&](const std::stop_token& stop) {
    Relay relay(*store, {.name = "worker"});
    relay.add({.name = "events"}, sink_from([&](const EventView& event) {
                const std::lock_guard lock(mutex);
                sent.push_back(event.id.to_string());
                return Outcome::Kind::delivered;
              }));
    relay.run(stop);
  };
  std::jthread first(work);
  std::jthread second(work);
  ASSERT_TRUE(
      eventually([&] { return count("(SELECT DISTINCT owner FROM lease WHERE owner IS NOT NULL) o") == 2; }, 60s));
  for (std::size_t i = 0; i < events; ++i) send_mail(app, EventId::make().to_string());
  ASSERT_TRUE(eventually([&] { return count("email_outbox WHERE status <> 'SENT'") == 0; }, 60s));
  first = {};
  second = {};
  EXPECT_EQ(events, sent.size());
  EXPECT_EQ(events, std::set<std::string>(sent.begin(), sent.end()).size());
}

TEST_F(Seed002, Recovery_and_Replay) {
  Publisher provider{.should_fail = true, .error = "550 no such user"};
  const std::string id = create_memo(app);
  create_memo(app);
  publish_pending(provider, 1);
  EXPECT_EQ(2U, app.column("SELECT * FROM email_outbox WHERE status = 'FAILED'").size()) << "inspect failures";

  // The seed's own way is refused, with ours.
  const std::string replay = R"(UPDATE email_outbox
SET status = 'PENDING', retry_count = 0, error_message = NULL, meta_updated_at = now()
WHERE id = ')" + id + "';";
  EXPECT_THAT(said_to(replay), HasSubstr("waybill.redrive('destination', ids =>"));
  EXPECT_THAT(said_to("UPDATE email_outbox SET payload = '{}' WHERE id = '" + id + "'"), HasSubstr("waybill.edit("));

  // Fix payloads, replay safely, guard idempotency.
  app("SELECT edit('events', '" + id + R"(', payload => '{"recipient_email":"b@example.com"}'))");
  EXPECT_EQ("b@example.com", shown(id, "recipient_email", "email_outbox"));
  EXPECT_EQ(R"({"recipient_email":"a@example.com","subject":"Memo Title Created"})",
            app("SELECT payload FROM event WHERE id = '" + id + "'"))
      << "the original stays";
  app("SELECT redrive('events', ids => '{" + id + "}')");
  EXPECT_EQ("PENDING|0", shown(id, "status, retry_count", "email_outbox"));
  provider.should_fail = false;
  publish_pending(provider);
  ASSERT_EQ(1U, provider.published_events.size()) << "the other one was not replayed";
  EXPECT_EQ(R"({"recipient_email":"b@example.com"})", provider.published_events[0].event_data);
  EXPECT_EQ(shown(id, "idempotency_key", "email_outbox"), provider.published_events[0].dedup_key);
  EXPECT_EQ("SENT", shown(id, "status", "email_outbox"));
  const auto attempts = waybill("events show " + id).at("destinations").at(0).at("attempts");
  ASSERT_EQ(2U, attempts.size()) << "history preserved";
  EXPECT_EQ("550 no such user", attempts[0].at("error"));
  EXPECT_EQ("delivered", attempts[1].at("outcome"));
}

// "Track gauges for status='PENDING', status='FAILED', and retry counts; alert when failures exceed thresholds."
TEST_F(Seed002, Operational_Guidelines_Monitoring) {
  Publisher provider{.should_fail = true};
  const std::string failed = create_memo(app);
  publish_pending(provider, 1);
  create_memo(app);
  publish_pending(provider, 5);
  create_memo(app);
  EXPECT_EQ(2, count("email_outbox WHERE status='PENDING'"));
  EXPECT_EQ(1, count("email_outbox WHERE status='FAILED'"));
  EXPECT_EQ("2", app("SELECT sum(retry_count) FROM email_outbox"));
  EXPECT_THAT(alerts(), Contains("dead"));
  app("SELECT dismiss('events', ids => '{" + failed + "}')");
  EXPECT_THAT(alerts(), testing::Not(Contains("dead")));
}

// "Periodically archive or delete SENT rows older than your retention window."
TEST_F(Seed002, Operational_Guidelines_Housekeeping) {
  Publisher provider{.should_fail = true};
  const std::string failed = create_memo(app);
  publish_pending(provider, 1);
  provider.should_fail = false;
  create_memo(app);
  publish_pending(provider);
  eight_days_pass();
  const std::string young = create_memo(app);
  const TmpFolder archive;
  EXPECT_EQ(2, waybill("clean --set archive=" + archive.path()).at("events").at("value"));
  EXPECT_THAT(app.column("SELECT id FROM email_outbox ORDER BY meta_created_at"), ElementsAre(failed, young))
      << "what has failed is kept";
}

// "Provide CRUD rights to application roles": ours may write events, and nothing else.
TEST_F(Seed002, Operational_Guidelines_Database_roles) {
  app("DO $$ BEGIN CREATE USER memo_service; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
  app("GRANT waybill_enqueue TO memo_service; GRANT INSERT ON public.memos TO memo_service");
  Sql service(server.url(app("SELECT current_database()"), "memo_service"));
  create_memo(service);
  EXPECT_EQ(1, count("email_outbox"));
  EXPECT_EQ("42501", service.refusal("SELECT * FROM waybill.email_outbox"));
  EXPECT_EQ("42501", service.refusal("DELETE FROM waybill.event"));
}

}  // namespace
}  // namespace waybill
