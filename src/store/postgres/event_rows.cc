#include <cstring>

#include "store/postgres/database.h"

namespace waybill {
namespace {

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

// The columns in the order of event_columns (database.cc).
EventView event_at(const PgRows& rows, int row) {
  EventView event{.seq = rows.integer(row, 0), .shard = static_cast<std::int32_t>(rows.integer(row, 1))};
  std::memcpy(event.id.bytes.data(), rows.text(row, 2).data(), event.id.bytes.size());
  event.tenant = rows.text(row, 3);
  event.topic = rows.text(row, 4);
  event.type = rows.null(row, 5) ? event.topic : rows.text(row, 5);
  event.aggregate_type = text_at(rows, row, 6);
  event.aggregate_id = text_at(rows, row, 7);
  event.version = large_at(rows, row, 8);
  event.key = text_at(rows, row, 9);
  event.payload_is_json = rows.boolean(row, 12);
  const int payload_column = event.payload_is_json ? 10 : 11;
  event.payload_deferred = rows.null(row, payload_column);
  event.payload = text_at(rows, row, payload_column);
  event.content_type = !rows.null(row, 13)     ? rows.text(row, 13)
                       : event.payload_is_json ? std::string_view("application/json")
                                               : std::string_view("application/octet-stream");
  event.metadata = text_at(rows, row, 14);
  event.headers = text_at(rows, row, 15);
  event.routing_key = text_at(rows, row, 16);
  event.schema_id = text_at(rows, row, 17);
  event.schema_version = small_at(rows, row, 18);
  event.created_at = rows.time(row, 20);
  event.occurred_at = time_at(rows, row, 19).value_or(event.created_at);
  event.not_before = time_at(rows, row, 21);
  event.expires_at = time_at(rows, row, 22);
  event.attempts_max = small_at(rows, row, 23);
  event.dedup_key = text_at(rows, row, 24);
  return event;
}

}  // namespace

std::vector<EventView> events_of(const PgRows& rows, int first, int count) {
  std::vector<EventView> events;
  events.reserve(static_cast<std::size_t>(count));
  for (int row = first; row < first + count; ++row) events.push_back(event_at(rows, row));
  return events;
}

std::vector<EventView> events_of(const PgRows& rows, int first) {
  return events_of(rows, first, rows.size() - first);
}

std::size_t bytes_of(const EventView& event) {
  return sizeof(EventView) + event.payload.size() + event.metadata.size() + event.headers.size() + 200;
}

}  // namespace waybill
