#include <array>
#include <cstring>

#include <fmt/format.h>

#include "store/postgres/database.h"

namespace waybill {
namespace {

struct Column {
  std::string_view value;
  std::string_view type;
};

// A large payload is left out and fetched when its turn comes: so a chunk of events stays small whatever is in them.
constexpr std::array<Column, event_columns_count> columns{{
    {"e.seq", "bigint"},
    {"e.shard", "smallint"},
    {"e.id", "uuid"},
    {"e.tenant", "text"},
    {"e.topic", "text"},
    {"e.type", "text"},
    {"e.aggregate_type", "text"},
    {"e.aggregate_id", "text"},
    {"e.version", "bigint"},
    {"e.key", "text"},
    {"CASE WHEN e.octets <= 65536 THEN e.payload END", "json"},
    {"CASE WHEN e.octets <= 65536 THEN e.payload_bytes END", "bytea"},
    {"e.payload_bytes IS NULL", "boolean"},
    {"e.content_type", "text"},
    {"e.metadata", "json"},
    {"e.headers", "json"},
    {"e.routing_key", "text"},
    {"e.schema_id", "text"},
    {"e.schema_version", "integer"},
    {"e.occurred_at", "timestamptz"},
    {"e.created_at", "timestamptz"},
    {"e.not_before", "timestamptz"},
    {"e.expires_at", "timestamptz"},
    {"e.attempts_max", "integer"},
    {"e.dedup_key", "text"},
}};

// Their places.
namespace at {
enum Place : int {
  seq,
  shard,
  id,
  tenant,
  topic,
  type,
  aggregate_type,
  aggregate_id,
  version,
  key,
  payload,
  payload_bytes,
  payload_is_json,
  content_type,
  metadata,
  headers,
  routing_key,
  schema_id,
  schema_version,
  occurred_at,
  created_at,
  not_before,
  expires_at,
  attempts_max,
  dedup_key,
  end
};
static_assert(end == event_columns_count);
}  // namespace at

std::string_view text_at(const PgRows& rows, int row, int column) {
  return rows.null(row, column) ? std::string_view() : rows.text(row, column);
}

std::optional<std::int64_t> large_at(const PgRows& rows, int row, int column) {
  return rows.null(row, column) ? std::nullopt : std::optional(rows.integer(row, column));
}

std::optional<std::int32_t> small_at(const PgRows& rows, int row, int column) {
  return rows.null(row, column) ? std::nullopt : std::optional(static_cast<std::int32_t>(rows.integer(row, column)));
}

std::optional<Time> time_at(const PgRows& rows, int row, int column) {
  return rows.null(row, column) ? std::nullopt : std::optional(rows.time(row, column));
}

}  // namespace

EventView event_at(const PgRows& rows, int row) {
  EventView event{.seq = rows.integer(row, at::seq), .shard = static_cast<std::int32_t>(rows.integer(row, at::shard))};
  std::memcpy(event.id.bytes.data(), rows.text(row, at::id).data(), event.id.bytes.size());
  event.tenant = rows.text(row, at::tenant);
  event.topic = rows.text(row, at::topic);
  event.type = rows.null(row, at::type) ? event.topic : rows.text(row, at::type);
  event.aggregate_type = text_at(rows, row, at::aggregate_type);
  event.aggregate_id = text_at(rows, row, at::aggregate_id);
  event.version = large_at(rows, row, at::version);
  event.key = text_at(rows, row, at::key);
  event.payload_is_json = rows.boolean(row, at::payload_is_json);
  const int payload_column = event.payload_is_json ? at::payload : at::payload_bytes;
  event.payload_deferred = rows.null(row, payload_column);
  event.payload = text_at(rows, row, payload_column);
  event.content_type = !rows.null(row, at::content_type) ? rows.text(row, at::content_type)
                       : event.payload_is_json           ? std::string_view("application/json")
                                                         : std::string_view("application/octet-stream");
  event.metadata = text_at(rows, row, at::metadata);
  event.headers = text_at(rows, row, at::headers);
  event.routing_key = text_at(rows, row, at::routing_key);
  event.schema_id = text_at(rows, row, at::schema_id);
  event.schema_version = small_at(rows, row, at::schema_version);
  event.created_at = rows.time(row, at::created_at);
  event.occurred_at = time_at(rows, row, at::occurred_at).value_or(event.created_at);
  event.not_before = time_at(rows, row, at::not_before);
  event.expires_at = time_at(rows, row, at::expires_at);
  event.attempts_max = small_at(rows, row, at::attempts_max);
  event.dedup_key = text_at(rows, row, at::dedup_key);
  return event;
}

std::string pg_event_columns() {
  std::string list;
  for (const Column& column : columns) list += fmt::format("{}{}", list.empty() ? "" : ", ", column.value);
  return list;
}

std::string pg_null_columns() {
  std::string list;
  for (const Column& column : columns) list += fmt::format("{}NULL::{}", list.empty() ? "" : ", ", column.type);
  return list;
}

std::vector<EventView> events_of(const PgRows& rows, int first) {
  std::vector<EventView> events;
  events.reserve(static_cast<std::size_t>(rows.size() - first));
  for (int row = first; row < rows.size(); ++row) events.push_back(event_at(rows, row));
  return events;
}

std::size_t bytes_of(const EventView& event) {
  return sizeof(EventView) + event.payload.size() + event.metadata.size() + event.headers.size() + 200;
}

}  // namespace waybill
