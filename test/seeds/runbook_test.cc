// The seeds' SELECTs, word for word, over a million published events and a thousand pending ones.

#include <chrono>

#include "seeds/seed_fixture.h"

namespace waybill {
namespace {

constexpr int published = 1'000'000;
constexpr int pending = 1'000;
constexpr int dead = 20;
constexpr auto time_max = 100ms;

class Runbook : public SeedTest {
 protected:
  Runbook() {
    app("SET synchronous_commit = off");
    // Ten transactions, as one alone would be one window.
    for (int part = 0; part < 10; ++part) insert("queue.changed", published / 10);
    deliver(Outcome::Kind::delivered);
    insert("queue.rejected", dead / 2);
    deliver(Outcome::Kind::rejected);
    insert("queue.rejected", dead / 2);
    for (int attempt = 0; attempt < 6; ++attempt) {
      deliver(Outcome::Kind::retry);
      time_passes();
    }
    insert("queue.changed", pending);
  }

  void insert(const std::string& topic, int number) {
    app("INSERT INTO event (topic, type, aggregate_type, aggregate_id, payload, metadata) SELECT '" + topic +
        "', 'PatientCheckedIn', 'waiting-queue', 'q' || n % 1000, json_build_object('n', n, 'text', repeat('x', 200)), "
        "'{\"source\":\"test\"}' FROM generate_series(1, " +
        std::to_string(number) + ") n");
  }
  void deliver(Outcome::Kind kind) {
    Relay relay(*store, {.name = "processor"});
    relay.add({.name = "events", .retry = {.first_delay = 24h, .max_delay = 24h}},
              sink_from([kind](const EventView&) { return kind; }));
    relay.drain(std::stop_token{});
  }

  // The best of several: what the statement takes, not what the machine does beside it.
  std::chrono::microseconds time_of(const std::string& query) {
    auto best = std::chrono::microseconds::max();
    for (int i = 0; i < 7; ++i) {
      const auto start = std::chrono::steady_clock::now();
      app.column(query);
      best = std::min(best,
                      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start));
    }
    return best;
  }
  int pages_of(const std::string& query) {
    const auto plan =
        nlohmann::json::parse(app("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING OFF) " + query))[0]["Plan"];
    return plan["Shared Hit Blocks"].get<int>() + plan["Shared Read Blocks"].get<int>();
  }
};

struct Select {
  const char* query;
  std::size_t rows;
};

const Select selects[] = {
    // Seed 000, debugging.
    {"SELECT * FROM outbox WHERE published = FALSE ORDER BY created_at", pending + dead},
    {"SELECT * FROM outbox WHERE retry_count > 5", dead / 2},
    // Seed 002, recovery; and the worker's, with the limit filled in.
    {"SELECT * FROM email_outbox WHERE status = 'FAILED'", dead / 2},
    {R"(
        SELECT id, payload, recipient_email, retry_count
        FROM email_outbox
        WHERE status = 'PENDING'
        ORDER BY meta_created_at
        FOR UPDATE SKIP LOCKED
        LIMIT 100
    )",
     100},
    // Seed 001, GetPendingEvents, with the limit filled in.
    {R"(
        SELECT id, aggregate_id, aggregate_type, event_type, event_data, 
               metadata, status, version, created_at, published_at, failed_at,
               retry_count, max_retries, last_error, next_retry_at
        FROM outbox_events 
        WHERE status IN ('pending', 'failed') 
        AND (next_retry_at IS NULL OR next_retry_at <= NOW())
        ORDER BY created_at ASC
        LIMIT 100
        FOR UPDATE SKIP LOCKED
    )",
     100},
    // What the seeds want to be watched (000: size, lag, retry counts; 002: gauges; 004: figures).
    {"SELECT count(*) FROM outbox WHERE published = FALSE", 1},
    {"SELECT max(now() - created_at) FROM outbox WHERE published = FALSE", 1},
    {"SELECT retry_count, count(*) FROM outbox WHERE published = FALSE GROUP BY retry_count", 3},
    {"SELECT count(*) FROM email_outbox WHERE status='PENDING'", 1},
    {"SELECT count(*) FROM email_outbox WHERE status='FAILED'", 1},
    {"SELECT count(*) FROM outbox WHERE status = 'NEW'", 1},
    {"SELECT count(*) FROM outbox WHERE status = 'FAILED'", 1},
    {"SELECT count(*) FROM outbox WHERE status = 'DEAD'", 1},
    {"SELECT * FROM pending('events')", 1},
};

TEST_F(Runbook, Every_SELECT_takes_at_most_100_ms) {
  for (const bool analyzed : {false, true}) {
    SCOPED_TRACE(analyzed ? "after ANALYZE" : "without statistics");
    if (analyzed) app("ANALYZE event; ANALYZE cursor; ANALYZE undelivered; ANALYZE lease");
    for (const auto& [query, rows] : selects) {
      SCOPED_TRACE(query);
      EXPECT_EQ(rows, app.column(query).size());
      EXPECT_LT(pages_of(query), 10'000) << "the log has five times as many";
      const auto time = time_of(query);
      EXPECT_LE(time, time_max) << time.count() << " us";
      std::printf("%8.1f ms  %.70s\n", static_cast<double>(time.count()) / 1e3, query[0] == '\n' ? query + 9 : query);
    }
  }
  ASSERT_GT(
      app.number("SELECT sum(pg_relation_size(inhrelid)) / 8192 FROM pg_inherits WHERE inhparent = 'event'::regclass"),
      50'000);
}

}  // namespace
}  // namespace waybill
