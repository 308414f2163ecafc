#include "waybill/enqueue.h"

#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "database/savepoint.h"
#include "database/sql_text.h"
#include "enqueue/columns.h"

namespace waybill {
namespace {

std::string key_of(const Event& event) {
  return !event.key.empty() ? event.key : event.aggregate.type + '/' + event.aggregate.id;
}

// A lock for each key, in the order of the locks' own numbers: two calls cannot wait for each other. In one statement,
// as arrays: so the order holds for all of them, and there is no limit to how many.
void lock_keys(Connection& connection, std::span<const Event> events, const std::string& schema) {
  std::set<std::pair<std::string, std::string>> keys;
  for (const Event& event : events)
    if (!event.key.empty() || !event.aggregate.type.empty()) keys.insert({event.tenant, key_of(event)});
  if (keys.empty()) return;
  std::string tenants = "{";
  std::string names = "{";
  for (const auto& [tenant, key] : keys) {
    append_element(tenants, tenant);
    append_element(names, key);
  }
  connection.run(
      fmt::format("SELECT pg_catalog.pg_advisory_xact_lock(k.number) FROM (SELECT DISTINCT pg_catalog.hashtextextended("
                  "v.key, pg_catalog.hashtextextended(\"{}\".tenant_of(v.tenant), 1)) AS number "
                  "FROM ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) v (tenant, key) "
                  "ORDER BY 1) k",
                  schema),
      tenants + '}', names + '}');
}

// One statement for many events: an array for each column that any of them uses.
Statement batch_statement(std::span<const Event> events, const std::string& schema, std::vector<EventId>& ids) {
  std::array<std::string, column_count> arrays;
  std::array<bool, column_count> used{};
  arrays.fill("{");
  for (const Event& event : events) {
    const Row row = row_of(event);
    ids.push_back(row.id);
    for (std::size_t i = 0; i < column_count; ++i) {
      used[i] = used[i] || row.values[i].has_value();
      append_element(arrays[i], row.values[i], i == payload_bytes_column);
    }
  }
  Statement statement;
  std::string names;
  std::string parameters;
  for (std::size_t i = 0; i < column_count; ++i) {
    if (!used[i]) continue;
    statement.parameters.push_back({.value = std::move(arrays[i]) + '}'});
    const std::string_view comma = names.empty() ? "" : ", ";
    names += fmt::format("{}{}", comma, contract_columns()[i].name);
    parameters += fmt::format("{}${}::{}[]", comma, statement.parameters.size(), contract_columns()[i].type);
  }
  statement.sql = fmt::format(
      "INSERT INTO {0} ({1}) SELECT {1} FROM unnest({2}) WITH ORDINALITY AS e ({1}, place) ORDER BY e.place",
      event_table(Dialect::postgresql, schema), names, parameters);
  return statement;
}

EventId first_id(Connection& connection, const Event& event, const std::string& schema) {
  const bool sqlite = connection.dialect() == Dialect::sqlite;
  const Rows rows = connection.run(sqlite ? "SELECT id FROM waybill_dedup WHERE tenant = $1 AND key = $2"
                                          : fmt::format("SELECT \"{}\".first_id($1::text, $2::text)", schema),
                                   event.tenant, event.dedup_key);
  if (rows.empty() || rows.null(0, 0))
    throw Error(Remedy::retry, "enqueue: the dedup_key is used by a transaction that this one cannot see; try again");
  const auto id = EventId::parse(rows.text(0, 0));
  if (!id) throw Error(Remedy::fix_config, "enqueue: the table of dedup keys holds an id that is no UUID");
  return *id;
}

// How many events were written. In a transaction on PostgreSQL it also tells the transaction's number, which names no
// column: whoever may only insert may ask for it.
std::int64_t insert(Connection& connection, const Statement& statement, bool many) {
  if (connection.dialect() != Dialect::postgresql || !connection.in_transaction())
    return connection.execute(statement.sql, statement.parameters).affected();
  const std::string sql = many ? fmt::format(
                                     "WITH written AS ({} RETURNING 1) SELECT pg_catalog.pg_current_xact_id(), "
                                     "pg_catalog.count(*) FROM written",
                                     statement.sql)
                               : fmt::format("{} RETURNING pg_catalog.pg_current_xact_id()", statement.sql);
  const Rows rows = connection.execute(sql, statement.parameters);
  if (!rows.empty()) connection.note_transaction(rows.text(0, 0));
  return many ? rows.integer(0, 1) : rows.affected();
}

std::vector<EventId> enqueue_at_once(Connection& connection, std::span<const Event> events,
                                     const EnqueueOptions& options) {
  std::vector<EventId> ids;
  const Statement statement = batch_statement(events, options.schema, ids);
  if (options.serialize) lock_keys(connection, events, options.schema);
  if (insert(connection, statement, true) == std::ssize(events)) return ids;
  for (std::size_t i = 0; i < events.size(); ++i)
    if (!events[i].dedup_key.empty()) ids[i] = first_id(connection, events[i], options.schema);
  return ids;
}

std::vector<EventId> enqueue_in_turn(Connection& connection, std::span<const Event> events) {
  Savepoint all_or_none(connection);
  std::vector<EventId> ids;
  ids.reserve(events.size());
  for (const Event& event : events) ids.push_back(enqueue(connection, event));
  all_or_none.release();
  return ids;
}

}  // namespace

EventId enqueue(Connection& connection, const Event& event, const EnqueueOptions& options) {
  const Statement statement = enqueue_statement(event, connection.dialect(), options.schema);
  if (options.serialize && connection.dialect() == Dialect::postgresql)
    lock_keys(connection, std::span(&event, 1), options.schema);
  return insert(connection, statement, false) == 1 ? statement.id : first_id(connection, event, options.schema);
}

std::vector<EventId> enqueue(Connection& connection, std::span<const Event> events, const EnqueueOptions& options) {
  if (events.empty()) return {};
  return connection.dialect() == Dialect::postgresql ? enqueue_at_once(connection, events, options)
                                                     : enqueue_in_turn(connection, events);
}

EventId enqueue(pg_conn* connection, const Event& event, const EnqueueOptions& options) {
  return enqueue(*borrow(connection), event, options);
}

std::vector<EventId> enqueue(pg_conn* connection, std::span<const Event> events, const EnqueueOptions& options) {
  return enqueue(*borrow(connection), events, options);
}

EventId enqueue(sqlite3* connection, const Event& event) {
  return enqueue(*borrow(connection), event);
}

std::vector<EventId> enqueue(sqlite3* connection, std::span<const Event> events) {
  return enqueue(*borrow(connection), events);
}

}  // namespace waybill
