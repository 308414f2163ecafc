// The relay against the two ways to keep an outbox that most people know: a mark on every row.
#include <stdexcept>

#include <fmt/format.h>

#include "drain.h"

namespace waybill::bench {
namespace {

// A table with the workload's columns and those of a design that marks its rows, filled just now by one transaction, as
// the log is for the relay.
void fill(Connection& connection, long events, const std::string& mark, const std::string& index) {
  connection.query("DROP TABLE IF EXISTS outbox");
  connection.query(
      fmt::format("CREATE TABLE outbox (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                  "created_at timestamptz NOT NULL DEFAULT clock_timestamp(), published_at timestamptz, {}, id uuid "
                  "NOT NULL, tenant text, topic text, type text, aggregate_type text, aggregate_id text, version "
                  "bigint, key text, payload json, content_type text, metadata json, headers json, routing_key text, "
                  "schema_id text, schema_version integer, occurred_at timestamptz)",
                  mark));
  connection.query("CREATE INDEX ON outbox " + index);
  connection.query("BEGIN");
  connection.query(fmt::format("INSERT INTO outbox ({}) SELECT {} FROM generate_series(1, {}) n", contract_columns,
                               event_expressions, events));
  connection.query("ANALYZE outbox");
  connection.query("COMMIT");
}

// A hundred rows by the clock, and for each an UPDATE of its own.
long mark_one_by_one(Connection& connection) {
  connection.query("DEALLOCATE ALL");
  connection.prepare("select", "SELECT seq, " + contract_columns +
                                   " FROM outbox WHERE published = FALSE ORDER BY created_at LIMIT 100");
  connection.prepare("update", "UPDATE outbox SET published = TRUE, published_at = now() WHERE seq = $1::bigint");
  long events = 0;
  while (true) {
    const auto rows = connection.run("select", {});
    if (rows.empty()) return events;
    for (const auto& row : rows) connection.run("update", {row[0]});
    events += static_cast<long>(rows.size());
  }
}

// A thousand rows nobody else has locked, and one UPDATE for them all.
long mark_a_thousand(Connection& connection) {
  connection.query("DEALLOCATE ALL");
  connection.prepare("select", "SELECT seq, " + contract_columns +
                                   " FROM outbox WHERE status = 'pending' ORDER BY created_at LIMIT 1000 "
                                   "FOR UPDATE SKIP LOCKED");
  connection.prepare("update",
                     "UPDATE outbox SET status = 'published', published_at = now() WHERE seq = ANY ($1::bigint[])");
  long events = 0;
  while (true) {
    connection.query("BEGIN");
    const auto rows = connection.run("select", {});
    if (!rows.empty()) {
      std::string seqs;
      for (const auto& row : rows) seqs += (seqs.empty() ? "" : ",") + row[0];
      connection.run("update", {"{" + seqs + "}"});
    }
    connection.query("COMMIT");
    if (rows.empty()) return events;
    events += static_cast<long>(rows.size());
  }
}

struct Rival {
  std::string mark{};
  std::string index{};
  long (*work)(Connection&) = nullptr;
};

std::vector<std::pair<Effort, Effort>> against(Run& run, long events, const Rival& rival) {
  const std::string url = run.server.migrated_database();
  Connection connection(url);
  auto pairs = side_by_side<Effort>(
      run.scale.pairs(), [&] { return drain_running(run.server, url, run.fresh_name(), events); },
      [&] {
        fill(connection, events, rival.mark, rival.index);
        return effort_of(run.server, [&] { return rival.work(connection); });
      });
  for (const auto& [relay, marked] : pairs)
    if (marked.events != events) throw std::runtime_error("the rival published another number of events");
  run.server.drop(url);
  return pairs;
}

}  // namespace

void drain_vs_seed(Run& run) {
  const Rival seed{
      .mark = "published boolean NOT NULL DEFAULT FALSE", .index = "(published, created_at)", .work = mark_one_by_one};
  const auto pairs = against(run, run.scale.quick ? 5'000 : 20'000, seed);
  run.report.add(ratio_of_rates("drain_vs_seed", at_least(40), pairs, "seed"));
}

void drain_vs_skip_locked(Run& run) {
  const Rival skip_locked{.mark = "status text NOT NULL DEFAULT 'pending'",
                          .index = "(created_at) WHERE status = 'pending'",
                          .work = mark_a_thousand};
  const auto pairs = against(run, run.scale.quick ? 20'000 : 200'000, skip_locked);
  run.report.add(ratio_of_rates("drain_vs_skip_locked", at_least(3), pairs, "skip locked"));
}

}  // namespace waybill::bench
