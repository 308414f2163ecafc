#include <utility>

#include <nlohmann/json.hpp>

#include "waybill/sqlite.h"
#include "waybill/store.h"
#include "waybill/testing.h"

#include "testing_sql.h"

namespace waybill {
namespace {

std::string in_schema(std::string sql, const std::string& schema) {
  constexpr std::string_view mark = "{schema}";
  const auto at = sql.find(mark);
  return at == std::string::npos ? sql : sql.replace(at, mark.size(), schema);
}

// A row, read from left to right.
class Cells {
 public:
  Cells(const Rows& rows, std::size_t row) : rows_(rows), row_(row) {}

  std::optional<std::string> maybe() {
    const std::size_t column = column_++;
    return rows_.null(row_, column) ? std::nullopt : std::optional(rows_.text(row_, column));
  }
  std::string text() { return maybe().value_or(""); }
  template <typename Number>
  std::optional<Number> number() {
    const std::size_t column = column_++;
    if (rows_.null(row_, column)) return std::nullopt;
    return static_cast<Number>(rows_.integer(row_, column));
  }
  std::optional<Time> time() {
    const auto microseconds = number<std::int64_t>();
    return microseconds ? std::optional(Time(std::chrono::microseconds(*microseconds))) : std::nullopt;
  }

 private:
  const Rows& rows_;
  std::size_t row_;
  std::size_t column_ = 0;
};

std::string from_hexadecimal(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

std::vector<Header> headers_of(const std::string& json) {
  std::vector<Header> headers;
  if (json.empty()) return headers;
  const auto members = nlohmann::ordered_json::parse(json);
  for (const auto& [name, value] : members.items())
    headers.push_back({.name = name, .value = value.get<std::string>()});
  return headers;
}

Event event_at(const Rows& rows, std::size_t row) {
  Cells cells(rows, row);
  Event event;
  event.id = EventId::parse(cells.text());
  event.tenant = cells.text();
  event.topic = cells.text();
  event.type = cells.text();
  event.aggregate.type = cells.text();
  event.aggregate.id = cells.text();
  event.version = cells.number<std::int64_t>();
  event.key = cells.text();
  event.payload = cells.maybe();
  const std::string bytes = from_hexadecimal(cells.text());
  if (!event.payload) event.payload_bytes = bytes;
  event.content_type = cells.text();
  event.metadata = cells.text();
  event.headers = headers_of(cells.text());
  event.routing_key = cells.text();
  event.schema_id = cells.text();
  event.schema_version = cells.number<std::int32_t>();
  event.occurred_at = cells.time();
  event.not_before = cells.time();
  event.expires_at = cells.time();
  event.attempts_max = cells.number<std::int32_t>();
  event.dedup_key = cells.text();
  return event;
}

}  // namespace

std::unique_ptr<Connection> memory_database() {
  auto database = connect("sqlite::memory:");
  database->script(sqlite_store({.path = ":memory:"})->schema()->print());
  return database;
}

EnqueuedEvents::EnqueuedEvents(Connection& connection, std::string schema)
    : connection_(connection), schema_(std::move(schema)) {
  const std::string table = connection_.dialect() == Dialect::sqlite ? "waybill_event" : "\"{schema}\".event";
  after_ = connection_.run(in_schema("SELECT coalesce(max(seq), 0) FROM " + table, schema_)).integer(0, 0);
}

std::vector<Event> EnqueuedEvents::events() const {
  const std::string_view sql =
      connection_.dialect() == Dialect::sqlite ? testing_sql::enqueued_sqlite : testing_sql::enqueued_postgresql;
  const Rows rows = connection_.run(in_schema(std::string(sql), schema_), after_);
  std::vector<Event> events;
  for (std::size_t row = 0; row < rows.size(); ++row) events.push_back(event_at(rows, row));
  return events;
}

}  // namespace waybill
