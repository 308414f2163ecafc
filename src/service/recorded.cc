#include "service/recorded.h"

#include <utility>

#include <fmt/format.h>

#include "base/time_text.h"
#include "database/sql_text.h"
#include "service/checks.h"

namespace waybill {

std::string service_statement(std::string_view text, Dialect dialect, const std::string& schema) {
  const bool sqlite = dialect == Dialect::sqlite;
  std::string sql = filled_in(text, "schema", schema);
  for (const char* table : {"stream_event", "snapshot"})
    sql = filled_in(sql, table, sqlite ? fmt::format("waybill_{}", table) : fmt::format("\"{}\".{}", schema, table));
  for (const char* time : {"occurred_at", "recorded_at", "taken_at"})
    sql = filled_in(
        sql, time,
        sqlite ? time : fmt::format("to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')", time));
  for (const char* bytes : {"payload_bytes", "state"})
    sql = filled_in(sql, bytes, sqlite ? fmt::format("hex({})", bytes) : fmt::format("encode({}, 'hex')", bytes));
  return sql;
}

RecordedEvent event_at(const Rows& rows, std::size_t row, std::size_t first, StreamId stream) {
  RecordedEvent event;
  event.id = EventId::parse(rows.text(row, first)).value_or(EventId{});
  event.stream = std::move(stream);
  event.version = rows.integer(row, first + 1);
  event.position = rows.integer(row, first + 2);
  event.topic = rows.text(row, first + 3);
  event.type = rows.text(row, first + 4);
  event.payload_is_json = !rows.null(row, first + 5);
  event.payload = event.payload_is_json ? rows.text(row, first + 5) : from_hexadecimal(rows.text(row, first + 6));
  event.metadata = text_at(rows, row, first + 7);
  event.schema_id = text_at(rows, row, first + 8);
  if (!rows.null(row, first + 9)) event.schema_version = static_cast<std::int32_t>(rows.integer(row, first + 9));
  event.occurred_at = time_at(rows, row, first + 10);
  event.recorded_at = time_at(rows, row, first + 11);
  return event;
}

Time time_at(const Rows& rows, std::size_t row, std::size_t column) {
  return parse_rfc3339(rows.text(row, column)).value_or(Time{});
}

std::string text_at(const Rows& rows, std::size_t row, std::size_t column) {
  return rows.null(row, column) ? std::string() : rows.text(row, column);
}

}  // namespace waybill
