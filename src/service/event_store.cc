#include "waybill/event_store.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "waybill/enqueue.h"

#include "base/time_text.h"
#include "database/savepoint.h"
#include "database/sql_text.h"
#include "enqueue/columns.h"
#include "model/validate.h"
#include "service/checks.h"
#include "service/recorded.h"
#include "service_sql.h"

namespace waybill {
namespace {

// What a column of the outbox is called as an array of try_append(); empty: it is the stream's.
constexpr std::array<std::string_view, column_count> array_names{"ids",
                                                                 "",
                                                                 "topics",
                                                                 "types",
                                                                 "",
                                                                 "",
                                                                 "",
                                                                 "keys",
                                                                 "payloads",
                                                                 "payloads_bytes",
                                                                 "content_types",
                                                                 "metadata",
                                                                 "headers",
                                                                 "routing_keys",
                                                                 "schema_ids",
                                                                 "schema_versions",
                                                                 "occurred_at",
                                                                 "not_before",
                                                                 "expires_at",
                                                                 "attempts_max",
                                                                 ""};

// The event as one of the stream's.
Event placed(const Event& event, const StreamId& stream, std::int64_t version) {
  if (!event.dedup_key.empty())
    throw Error(Remedy::fix_input, fmt::format("event '{}': a dedup_key has no place in a stream: the version keeps it "
                                               "from being appended twice",
                                               event.topic));
  Event placed = event;
  placed.aggregate = {stream.type, stream.id};
  placed.tenant = stream.tenant;
  placed.version = version;
  return placed;
}

// The new version; or -1 minus the version that is not the expected one.
std::int64_t append_postgres(Connection& connection, const std::string& schema, const StreamId& stream,
                             const Expected& expected, std::span<const Event> events) {
  std::array<std::string, column_count> arrays;
  std::array<bool, column_count> used{};
  arrays.fill("{");
  for (const Event& event : events) {
    const Row row = row_of(placed(event, stream, 0));
    for (std::size_t i = 0; i < column_count; ++i) {
      if (array_names[i].empty()) continue;
      used[i] = used[i] || row.values[i].has_value();
      append_element(arrays[i], row.values[i], i == payload_bytes_column);
    }
  }
  std::vector<Parameter> parameters{parameter(stream.tenant), parameter(stream.type), parameter(stream.id),
                                    parameter(expected.value)};
  std::string sql = fmt::format("SELECT \"{}\".try_append($1, $2, $3, $4", schema);
  for (std::size_t i = 0; i < column_count; ++i) {
    if (!used[i]) continue;
    parameters.push_back({.value = std::move(arrays[i]) + '}'});
    sql += fmt::format(", {} => ${}", array_names[i], parameters.size());
  }
  const Rows rows = connection.execute(sql + "), pg_catalog.pg_current_xact_id_if_assigned()", parameters);
  if (!rows.null(0, 1) && connection.in_transaction()) connection.note_transaction(rows.text(0, 1));
  return rows.integer(0, 0);
}

void append_sqlite(Connection& connection, const StreamId& stream, std::int64_t version, const Event& event) {
  Event one = placed(event, stream, version);
  if (!one.id) one.id = EventId::make();
  validate(one);
  connection.run(service_statement(service_sql::append_sqlite, Dialect::sqlite, ""), stream.tenant, stream.type,
                 stream.id, version, one.id->to_string(), one.topic, one.type.empty() ? one.topic : one.type,
                 parameter(one.payload), one.payload_bytes ? bytes(*one.payload_bytes) : Parameter{},
                 or_null(one.metadata), or_null(one.schema_id), one.schema_version,
                 one.occurred_at ? parameter(to_rfc3339(*one.occurred_at)) : Parameter{});
  enqueue(connection, one);
}

}  // namespace

Conflict::Conflict(const StreamId& stream, std::int64_t expected, std::int64_t actual)
    : Collision(fmt::format("stream {}/{} is at version {}, not {}", stream.type, stream.id, actual, expected)),
      expected_(expected),
      actual_(actual) {}

EventStore::EventStore(std::string schema) : schema_(std::move(schema)) {
  check_schema(schema_);
}

std::int64_t EventStore::append(Connection& connection, const StreamId& stream, Expected expected,
                                std::span<const Event> events) const {
  if (stream.type.empty() || stream.id.empty())
    throw Error(Remedy::fix_input, "a stream needs the type and the id of its aggregate");
  if (connection.dialect() == Dialect::postgresql && !events.empty()) {
    const std::int64_t version = append_postgres(connection, schema_, stream, expected, events);
    if (version < 0) throw Conflict(stream, expected.value.value_or(0), -1 - version);
    return version;
  }
  // One writes at a time. All or none, whether or not the application has begun a transaction.
  std::optional<Transaction> own;
  if (!connection.in_transaction() && !events.empty()) own.emplace(connection);
  std::int64_t version = this->version(connection, stream);
  if (expected.value && *expected.value != version) throw Conflict(stream, *expected.value, version);
  if (events.empty()) return version;
  {
    Savepoint all_or_none(connection);
    for (const Event& event : events) append_sqlite(connection, stream, ++version, event);
    all_or_none.release();
  }
  if (own) own->commit();
  return version;
}

std::vector<RecordedEvent> EventStore::load(Connection& connection, const StreamId& stream, std::int64_t after,
                                            int events_max) const {
  const Rows rows = connection.run(service_statement(service_sql::load, connection.dialect(), schema_), stream.tenant,
                                   stream.type, stream.id, after, events_max);
  std::vector<RecordedEvent> events;
  events.reserve(rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) events.push_back(event_at(rows, row, 0, stream));
  return events;
}

std::int64_t EventStore::version(Connection& connection, const StreamId& stream) const {
  const Rows rows = connection.run(service_statement(service_sql::version, connection.dialect(), schema_),
                                   stream.tenant, stream.type, stream.id);
  return rows.empty() ? 0 : rows.integer(0, 0);
}

std::optional<StreamSnapshot> EventStore::snapshot(Connection& connection, const StreamId& stream) const {
  const Rows rows = connection.run(service_statement(service_sql::snapshot, connection.dialect(), schema_),
                                   stream.tenant, stream.type, stream.id);
  if (rows.empty()) return std::nullopt;
  return StreamSnapshot{.version = rows.integer(0, 0),
                        .state = from_hexadecimal(rows.text(0, 1)),
                        .schema_version = static_cast<std::int32_t>(rows.integer(0, 2)),
                        .taken_at = time_at(rows, 0, 3)};
}

void EventStore::save_snapshot(Connection& connection, const StreamId& stream, const StreamSnapshot& snapshot) const {
  connection.run(service_statement(service_sql::save_snapshot, connection.dialect(), schema_), stream.tenant,
                 stream.type, stream.id, snapshot.version, bytes(snapshot.state), snapshot.schema_version);
}

std::vector<StreamSummary> EventStore::streams(Connection& connection, const std::string& tenant,
                                               const std::string& type, const std::string& after,
                                               int streams_max) const {
  const Rows rows = connection.run(service_statement(service_sql::streams, connection.dialect(), schema_), tenant, type,
                                   after, streams_max);
  std::vector<StreamSummary> streams;
  for (std::size_t row = 0; row < rows.size(); ++row)
    streams.push_back({.stream = {.type = type, .id = rows.text(row, 0), .tenant = tenant},
                       .version = rows.integer(row, 1),
                       .changed_at = time_at(rows, row, 2)});
  return streams;
}

}  // namespace waybill
