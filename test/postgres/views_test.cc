// The outbox as a table: the seeds' runbooks word for word, on a log that they do not read.

#include <nlohmann/json.hpp>

#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

using testing::HasSubstr;

class ViewsTest : public PostgresTest {
 protected:
  ViewsTest() : PostgresTest(1) { app("SET search_path = waybill, public; SET jit = off"); }

  // Of an event: status in the three views, and whether it is published.
  std::string words(const EventId& id) {
    return app(
        "SELECT concat_ws(' ', o.status, e.status, m.status, o.published, o.published_at IS NOT NULL, "
        "o.retry_count) FROM outbox o JOIN outbox_events e USING (id) JOIN email_outbox m USING (id) WHERE id = '" +
        id.to_string() + "'");
  }
};

TEST_F(ViewsTest, WithoutADestinationEverythingIsNew) {
  const EventId id = put("a");
  EXPECT_EQ("NEW pending PENDING f f 0", words(id));
}

TEST_F(ViewsTest, EveryStandingHasItsWord) {
  std::vector<EventId> ids;
  for (int i = 0; i < 9; ++i) ids.push_back(put("x"));
  Reader reader(*store);
  const auto events = reader.read_all();
  std::vector<Undelivered> rows;
  for (const Standing standing : {Standing::retrying, Standing::blocked, Standing::scheduled, Standing::held,
                                  Standing::expired, Standing::dead, Standing::dismissed})
    rows.push_back({.seq = events.at(rows.size()).seq, .key = 1, .standing = standing, .attempts = 6});
  rows.push_back({.seq = events.at(7).seq, .key = 1, .attempts = 1, .sending = Undelivered::Sending::yes});
  reader.pass(0, rows);
  ids.push_back(put("y"));
  const char* const expected[] = {"FAILED failed PENDING f f 6",         "NEW pending PENDING f f 6",
                                  "NEW pending PENDING f f 6",           "FAILED failed FAILED f f 6",
                                  "DEAD dead_letter FAILED f f 6",       "DEAD dead_letter FAILED f f 6",
                                  "DISMISSED dismissed DISMISSED f f 6", "PUBLISHING failed SENDING f f 1",
                                  "SENT published SENT t t 0",           "NEW pending PENDING f f 0"};
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(expected[i], words(ids[i])) << i;
  EXPECT_EQ("10", app("SELECT count(*) FROM outbox"));
  EXPECT_EQ("9", app("SELECT count(*) FROM outbox WHERE published = FALSE"));
  EXPECT_EQ("7", app("SELECT count(*) FROM outbox WHERE retry_count > 5"));
}

TEST_F(ViewsTest, PublishedIsPublishedEverywhereAndTheWorstCounts) {
  const EventId id = put("a");
  Reader(*store, "slow").leave();
  Reader out(*store);
  out.read_all();
  out.settle_all();
  EXPECT_EQ("NEW pending PENDING f f 0", words(id));
  Reader slow(*store, "slow");
  const auto events = slow.read_all();
  slow.pass(0, {{.seq = events.at(0).seq, .key = 1, .standing = Standing::dead, .attempts = 2}});
  EXPECT_EQ("DEAD dead_letter FAILED f f 2", words(id));
  Reader third(*store, "third");
  third.read_all();
  third.pass(0, {{.seq = events.at(0).seq, .key = 1, .attempts = 9}});
  EXPECT_EQ("DEAD dead_letter FAILED f f 2", words(id)) << "one row, of the worst";
  EXPECT_EQ("1", app("SELECT count(*) FROM outbox"));
  app("DELETE FROM undelivered");
  EXPECT_EQ("SENT published SENT t t 0", words(id));
}

// Neither published nor waiting: "published" is null, so no runbook takes it for a backlog or for a delivery.
TEST_F(ViewsTest, WhatNoRuleSendsIsSkipped) {
  const EventId skipped = put("a");
  const EventId sent = put("b");
  const std::string topic = app("SELECT topic FROM event WHERE id = '" + sent.to_string() + "'");
  app("UPDATE event SET topic = 'other' WHERE id = '" + skipped.to_string() + "'");
  Reader out(*store, "out", Start::beginning, {.topic = {topic}});
  out.read_all();
  out.settle_all();
  EXPECT_EQ("SKIPPED skipped SKIPPED f 0", words(skipped)) << "concat_ws leaves the null out";
  EXPECT_EQ("SENT published SENT t t 0", words(sent));
  EXPECT_EQ("0", app("SELECT count(*) FROM outbox WHERE published = FALSE"));
  EXPECT_EQ("1", app("SELECT count(*) FROM outbox WHERE published = TRUE"));
  EXPECT_EQ("2", app("SELECT count(*) FROM outbox"));
  Reader all(*store, "all");
  EXPECT_EQ("NEW pending PENDING f f 0", words(skipped));
  all.read_all();
  all.settle_all();
  EXPECT_EQ("SENT published SENT t t 0", words(skipped)) << "sent to one of two";
}

TEST_F(ViewsTest, WhatIsKeptIsStillShown) {
  const EventId id = put("a");
  Reader out(*store);
  const auto events = out.read_all();
  out.pass(0, {{.seq = events.at(0).seq, .key = 1, .standing = Standing::dead, .attempts = 2}});
  app("TRUNCATE event");
  EXPECT_EQ("DEAD dead_letter FAILED f f 2", words(id));
}

TEST_F(ViewsTest, ALateTransactionIsPending) {
  Sql late(url);
  late("BEGIN");
  const EventId id = put(late, "late");
  put("a");
  Reader out(*store);
  out.read_all();
  out.settle_all();
  late("COMMIT");
  EXPECT_EQ("NEW pending PENDING f f 0", words(id));
  EXPECT_EQ("1", app("SELECT count(*) FROM outbox WHERE published = FALSE"));
  EXPECT_EQ("1 t", app("SELECT events || ' ' || left(exact::text, 1) FROM pending('out')"));
}

TEST_F(ViewsTest, TheRecipientIsFound) {
  app("INSERT INTO event (topic, payload, metadata, headers) VALUES ('m', '{\"recipient_email\":\"a@x\"}', NULL, "
      "NULL), "
      "('m', '[1]', '{\"recipient_email\":\"b@x\"}', NULL), ('m', '\"text\"', NULL, '{\"to\":\"c@x\"}')");
  EXPECT_EQ("a@x b@x c@x", app("SELECT string_agg(recipient_email, ' ' ORDER BY recipient_email) FROM email_outbox"));
}

// Also where nothing would match.
TEST_F(ViewsTest, WritingIsRefusedWithWhatToCallInstead) {
  app("DO $$ BEGIN CREATE USER only_operator; EXCEPTION WHEN duplicate_object THEN NULL; END $$; GRANT "
      "waybill_operator "
      "TO only_operator");
  Sql person(server.url(app("SELECT current_database()"), "only_operator"));
  person("SET search_path = waybill");
  const auto said = [&](const std::string& sql) -> std::string {
    try {
      person(sql);
      return "nothing";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  EXPECT_THAT(said("DELETE FROM outbox WHERE published = TRUE AND published_at < NOW() - INTERVAL '7 days'"),
              HasSubstr("waybill clean"));
  EXPECT_THAT(said("DELETE FROM outbox\nWHERE status = 'SENT'\nAND created_at < NOW() - INTERVAL '7 days';"),
              HasSubstr("waybill clean"));
  EXPECT_THAT(
      said("UPDATE email_outbox\nSET status = 'PENDING', retry_count = 0, error_message = NULL, meta_updated_at = "
           "now()\nWHERE id = '018f3c1e-0000-7000-8000-000000000000';"),
      HasSubstr("waybill.redrive("));
  EXPECT_THAT(said("INSERT INTO outbox_events (id, event_type) VALUES (gen_random_uuid(), 'x')"),
              HasSubstr("waybill.enqueue("));
  EXPECT_EQ("nothing", said("SELECT id FROM outbox WHERE published = FALSE FOR UPDATE SKIP LOCKED"));
}

// An application that inserts into such a table is told what to do; it can neither read the views nor change them.
TEST_F(ViewsTest, AnApplicationIsToldWhatToCallInstead) {
  app("DO $$ BEGIN CREATE USER only_enqueue; EXCEPTION WHEN duplicate_object THEN NULL; END $$; GRANT waybill_enqueue "
      "TO only_enqueue");
  Sql application(server.url(app("SELECT current_database()"), "only_enqueue"));
  EXPECT_EQ("0A000", application.refusal("INSERT INTO waybill.outbox (id, topic, payload) VALUES (gen_random_uuid(), "
                                         "'t', '1')"));
  EXPECT_EQ("42501", application.refusal("UPDATE waybill.outbox SET published = TRUE"));
  EXPECT_EQ("42501", application.refusal("DELETE FROM waybill.outbox"));
}

TEST_F(ViewsTest, ThePendingAreCountedUpToALimitThenEstimated) {
  Reader(*store).leave();
  app("INSERT INTO event (topic, payload) SELECT 't', '1' FROM generate_series(1, 10000)");
  EXPECT_EQ("10000 t", app("SELECT events || ' ' || left(exact::text, 1) FROM pending('out')"));
  EXPECT_TRUE(store->inspector()->status().destinations.at(0).pending.exact);
  app("INSERT INTO event (topic, payload) SELECT 't', '1' FROM generate_series(1, 20000)");
  EXPECT_EQ("30000 f", app("SELECT events || ' ' || left(exact::text, 1) FROM pending('out')"));
  const Count pending = store->inspector()->status().destinations.at(0).pending;
  EXPECT_EQ(30'000, pending.value);
  EXPECT_FALSE(pending.exact);
}

// Published: many. What the runbooks ask for is found without them, whatever the statistics say.
TEST_F(ViewsTest, TheRunbooksDoNotReadWhatIsPublished) {
  app("INSERT INTO event (topic, key, payload) SELECT 't', 'k' || i % 100, to_json(repeat('x', 300)) FROM "
      "generate_series(1, 100000) i");
  Reader out(*store);
  app("INSERT INTO cursor (destination, shards, settled, hi, count) SELECT 'out', '{0}', pg_current_snapshot(), "
      "pg_snapshot_xmax(pg_current_snapshot()), 100000");
  app("INSERT INTO event (topic, key, payload) SELECT 't', 'k' || i, '1' FROM generate_series(1, 1000) i");
  for (const bool analyzed : {false, true}) {
    SCOPED_TRACE(analyzed);
    if (analyzed) app("ANALYZE event; ANALYZE cursor; ANALYZE undelivered; ANALYZE lease");
    for (const char* query :
         {"SELECT * FROM outbox WHERE published = FALSE ORDER BY created_at",
          "SELECT * FROM outbox WHERE retry_count > 5", "SELECT * FROM email_outbox WHERE status = 'FAILED'"}) {
      SCOPED_TRACE(query);
      const auto plan = nlohmann::json::parse(
          app("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING OFF) " + std::string(query)))[0]["Plan"];
      const int pages = plan["Shared Hit Blocks"].get<int>() + plan["Shared Read Blocks"].get<int>();
      EXPECT_LT(pages, 3'000) << "the log has thousands";
    }
  }
  ASSERT_GT(
      app.number("SELECT sum(pg_relation_size(inhrelid)) / 8192 FROM pg_inherits WHERE inhparent = 'event'::regclass"),
      3'000);
  EXPECT_EQ(1000U, app.column("SELECT * FROM outbox WHERE published = FALSE ORDER BY created_at").size());
}

}  // namespace
}  // namespace waybill
