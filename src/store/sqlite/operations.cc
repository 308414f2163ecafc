#include "store/sqlite/operations.h"

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/time_text.h"

namespace waybill {

Time begin_of_operation(const Database& state, const Operation& operation, Time now) {
  Query query = state.query("SELECT at FROM operation WHERE id = ?1");
  query.bind(1, operation.id.to_string());
  return query.step() ? parse_rfc3339(query.text(0)).value_or(now) : now;
}

std::optional<std::int64_t> events_of_operation(const Database& state, const Operation& operation) {
  Query query = state.query("SELECT events FROM operation WHERE id = ?1");
  query.bind(1, operation.id.to_string());
  return query.step() ? std::optional(query.integer(0)) : std::nullopt;
}

void require_same_operation(const Database& state, const Operation& operation, const OperationView& what) {
  Query query = state.query("SELECT kind, destination FROM operation WHERE id = ?1");
  if (!query.bind(1, operation.id.to_string()).step()) return;
  if (query.text(0) != what.kind || query.text(1) != what.destination)
    throw Error(Remedy::fix_input, fmt::format("operation {} is a {} of destination '{}'", operation.id.to_string(),
                                               query.text(0), query.text(1)));
}

void record_operation(const Database& state, const Operation& operation, const OperationView& what) {
  state
      .query(
          "INSERT INTO operation (id, kind, by, destination, details, events, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, "
          "?7) ON CONFLICT (id) DO UPDATE SET events = events + excluded.events")
      .bind(1, operation.id.to_string())
      .bind(2, what.kind)
      .bind(3, operation.by)
      .bind(4, what.destination)
      .bind(5, what.details)
      .bind(6, what.events)
      .bind(7, to_rfc3339(what.at == Time{} ? system_clock().now() : what.at))
      .run();
}

std::vector<OperationView> list_operations(const Database& state, int limit) {
  Query query =
      state.query("SELECT id, kind, by, destination, details, events, at FROM operation ORDER BY entry DESC LIMIT ?1");
  query.bind(1, limit);
  std::vector<OperationView> list;
  while (query.step())
    list.push_back({.id = EventId::parse(query.text(0)).value_or(EventId{}),
                    .kind = std::string(query.text(1)),
                    .by = std::string(query.text(2)),
                    .destination = std::string(query.text(3)),
                    .details = std::string(query.text(4)),
                    .events = query.integer(5),
                    .at = parse_rfc3339(query.text(6)).value_or(Time{})});
  return list;
}

void note_change(const Database& state, const std::string& destination) {
  state
      .query(
          "INSERT INTO destination (name, changes) VALUES (?1, 1) "
          "ON CONFLICT (name) DO UPDATE SET changes = changes + 1")
      .bind(1, destination)
      .run();
}

void take_lease_away(const Database& state, const std::string& destination) {
  note_change(state, destination);
  state.query("UPDATE destination SET term = term + 1, owner = '', crashes = 0, in_doubt_until = ?2 WHERE name = ?1")
      .bind(1, destination)
      .bind(2, to_rfc3339(system_clock().now()))
      .run();
}

}  // namespace waybill
