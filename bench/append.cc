// An event into its stream and into the outbox, by the library and by hand.
#include <atomic>
#include <span>

#include <fmt/format.h>

#include "waybill/enqueue.h"
#include "waybill/event_store.h"

#include "bench.h"
#include "commits.h"

namespace waybill::bench {
namespace {

constexpr int clients = 8;
constexpr long stream_length = 10;

// Ordinary tables with the same columns and indexes. Nobody checks what is written into them, nobody is woken, and
// there is one of each.
constexpr const char* plain_tables =
    "CREATE SCHEMA plain;"
    "CREATE TABLE plain.stream_event (LIKE waybill.stream_event INCLUDING DEFAULTS INCLUDING IDENTITY INCLUDING "
    "INDEXES);"
    "CREATE TABLE plain.event (LIKE waybill.event INCLUDING DEFAULTS INCLUDING IDENTITY);"
    "ALTER TABLE plain.event ALTER slot SET DEFAULT 0, ALTER woke SET DEFAULT false;"
    "CREATE INDEX ON plain.event (xid, shard, seq);"
    "CREATE INDEX ON plain.event (shard, seq)";

// The event's values are parameters 1 to 16, in the order of contract_columns; 17 and 18 are its shard and its size.
constexpr const char* stream_sql =
    "INSERT INTO plain.stream_event (id, tenant, topic, type, aggregate_type, aggregate_id, version, payload, "
    "metadata, "
    "schema_id, schema_version, occurred_at) VALUES ($1::uuid, $2, $3, $4, $5, $6, $7::bigint, $8::json, $9::json, "
    "$10, "
    "$11::integer, $12::timestamptz)";
std::string outbox_sql() {
  return fmt::format(
      "INSERT INTO plain.event ({}, shard, octets) VALUES ($1::uuid, $2, $3, $4, $5, $6, $7::bigint, $8, $9::json, "
      "$10, "
      "$11::json, $12::json, $13, $14, $15::integer, $16::timestamptz, $17::smallint, $18::integer)",
      contract_columns);
}
std::string both_sql() {
  return fmt::format(
      "WITH stream AS (INSERT INTO plain.stream_event (id, tenant, topic, type, aggregate_type, aggregate_id, version, "
      "payload, metadata, schema_id, schema_version, occurred_at) VALUES ($1::uuid, $2, $3, $4, $5, $6, $7::bigint, "
      "$9::json, $11::json, $14, $15::integer, $16::timestamptz)) {}",
      outbox_sql());
}

// What is appended next: every client has streams of its own, ten events long.
struct Step {
  StreamId stream{};
  std::int64_t version = 0;  // that it has
  Event event{};
};

std::atomic<long> last_client = 0;

std::function<Step()> steps() {
  return [client = ++last_client, n = long{0}]() mutable {
    Step step{.stream = {.type = "order", .id = fmt::format("o-{}-{}", client, n / stream_length), .tenant = "clinic"},
              .version = n % stream_length,
              .event = event_number(n)};
    ++n;
    return step;
  };
}

Client append_client(const std::string& url) {
  const std::shared_ptr<waybill::Connection> db = waybill::connect(url);
  return [db, next = steps()] {
    static const EventStore events;
    const Step step = next();
    Transaction transaction(*db);
    events.append(*db, step.stream, Expected::version(step.version), std::span(&step.event, 1));
    transaction.commit();
  };
}

enum class ByHand { two_inserts, prepared, one_statement };

Connection::Parameters outbox_parameters(const Step& step) {
  Event event = step.event;
  event.aggregate = {step.stream.type, step.stream.id};
  event.version = step.version + 1;
  auto parameters = enqueue_parameters(event);
  parameters.push_back(std::to_string(step.version));
  parameters.push_back(std::to_string(event.payload->size()));
  return parameters;
}

Connection::Parameters stream_parameters(const Connection::Parameters& p) {
  return {p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[8], p[10], p[13], p[14], p[15]};
}

Client plain_client(const std::string& url, ByHand manner) {
  const auto connection = std::make_shared<Connection>(url);
  if (manner == ByHand::prepared) {
    connection->prepare("stream", stream_sql);
    connection->prepare("outbox", outbox_sql());
  }
  return [connection, manner, outbox = outbox_sql(), both = both_sql(), next = steps()] {
    const auto parameters = outbox_parameters(next());
    connection->query("BEGIN");
    if (manner == ByHand::one_statement) {
      connection->run_once(both, parameters);
    } else if (manner == ByHand::prepared) {
      connection->run("stream", stream_parameters(parameters));
      connection->run("outbox", parameters);
    } else {
      connection->run_once(stream_sql, stream_parameters(parameters));
      connection->run_once(outbox, parameters);
    }
    connection->query("COMMIT");
  };
}

}  // namespace

void append_vs_two_inserts(Run& run) {
  const std::string url = run.server.migrated_database();
  Connection(url).query(plain_tables);
  const auto append = [&] { return commits(run, clients, [&](int) { return append_client(url); }); };
  const auto by_hand = [&](ByHand manner) {
    return commits(run, clients, [&](int) { return plain_client(url, manner); });
  };
  append();  // The first to write pays for new files.
  by_hand(ByHand::two_inserts);
  const auto compare = [&](const std::string& name, ByHand manner, Goal goal) {
    Figure figure{.name = name, .goal = goal};
    add_rates(figure, "append", "by hand",
              side_by_side<Commits>(run.scale.many_pairs(), append, [&] { return by_hand(manner); }));
    run.report.add(std::move(figure));
  };
  compare("append_vs_two_inserts", ByHand::two_inserts, at_least(0.95));
  compare("append_vs_two_prepared_inserts", ByHand::prepared, {});
  compare("append_vs_one_statement", ByHand::one_statement, {});
  run.server.drop(url);
}

}  // namespace waybill::bench
