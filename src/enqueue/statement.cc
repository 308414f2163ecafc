#include <algorithm>

#include <fmt/format.h>

#include "waybill/enqueue.h"
#include "waybill/error.h"

#include "base/time_text.h"
#include "enqueue/columns.h"
#include "enqueue/replay.h"
#include "enqueue/schema_name.h"
#include "model/validate.h"

namespace waybill {
namespace {

std::optional<std::string> text(const std::string& value) {
  return value.empty() ? std::nullopt : std::optional(value);
}

std::optional<std::string> text(const std::optional<Time>& time) {
  return time ? std::optional(to_rfc3339(*time)) : std::nullopt;
}

template <typename Number>
std::optional<std::string> text(const std::optional<Number>& number) {
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

}  // namespace

const std::array<Column, column_count>& contract_columns() {
  static constexpr std::array<Column, column_count> columns{{
      {"id", "uuid"},
      {"tenant", "text"},
      {"topic", "text"},
      {"type", "text"},
      {"aggregate_type", "text"},
      {"aggregate_id", "text"},
      {"version", "bigint"},
      {"key", "text"},
      {"payload", "json"},
      {"payload_bytes", "bytea"},
      {"content_type", "text"},
      {"metadata", "json"},
      {"headers", "json"},
      {"routing_key", "text"},
      {"schema_id", "text"},
      {"schema_version", "integer"},
      {"occurred_at", "timestamptz"},
      {"not_before", "timestamptz"},
      {"expires_at", "timestamptz"},
      {"attempts_max", "integer"},
      {"dedup_key", "text"},
  }};
  return columns;
}

Row row_of(const Event& event) {
  refuse_in_replay();
  validate(event);
  const EventId id = event.id ? *event.id : EventId::make();
  return {.id = id,
          .values = {id.to_string(),
                     event.tenant,
                     event.topic,
                     text(event.type),
                     text(event.aggregate.type),
                     text(event.aggregate.id),
                     text(event.version),
                     text(event.key),
                     event.payload,
                     event.payload_bytes,
                     text(event.content_type),
                     text(event.metadata),
                     text(headers_json(event.headers)),
                     text(event.routing_key),
                     text(event.schema_id),
                     text(event.schema_version),
                     text(event.occurred_at),
                     text(event.not_before),
                     text(event.expires_at),
                     text(event.attempts_max),
                     text(event.dedup_key)}};
}

bool is_schema_name(std::string_view name) {
  constexpr std::size_t bytes_max = 40;
  return !name.empty() && name.size() <= bytes_max && (name[0] < '0' || name[0] > '9') &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

std::string event_table(Dialect dialect, const std::string& schema) {
  if (dialect == Dialect::sqlite) return "waybill_event";
  if (!is_schema_name(schema)) throw Error(Remedy::fix_config, fmt::format("the schema's name {}", schema_name_rule));
  return fmt::format("\"{}\".event", schema);
}

Statement enqueue_statement(const Event& event, Dialect dialect, const std::string& schema) {
  Row row = row_of(event);
  Statement statement{.id = row.id};
  std::string names;
  std::string places;
  for (std::size_t i = 0; i < column_count; ++i) {
    if (!row.values[i]) continue;
    const bool bytes = i == payload_bytes_column;
    statement.parameters.push_back({.value = std::move(row.values[i]), .bytes = bytes});
    const auto& column = contract_columns()[i];
    const std::string_view comma = names.empty() ? "" : ", ";
    names += fmt::format("{}{}", comma, column.name);
    places += dialect == Dialect::sqlite ? fmt::format("{}?{}", comma, statement.parameters.size())
                                         : fmt::format("{}${}::{}", comma, statement.parameters.size(), column.type);
  }
  statement.sql = fmt::format("INSERT INTO {} ({}) VALUES ({})", event_table(dialect, schema), names, places);
  return statement;
}

}  // namespace waybill
