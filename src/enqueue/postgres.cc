#include <algorithm>
#include <charconv>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <libpq-fe.h>

#include "waybill/enqueue.h"
#include "waybill/error.h"

#include "enqueue/columns.h"
#include "enqueue/database_error.h"

namespace waybill {
namespace {

using Result = std::unique_ptr<PGresult, decltype(&PQclear)>;

Result run(PGconn* connection, const Statement& statement) {
  std::vector<const char*> values;
  std::vector<int> lengths;
  std::vector<int> formats;
  for (const Parameter& parameter : statement.parameters) {
    values.push_back(parameter.value ? parameter.value->c_str() : nullptr);
    lengths.push_back(parameter.value ? static_cast<int>(parameter.value->size()) : 0);
    formats.push_back(parameter.bytes ? 1 : 0);
  }
  Result result(PQexecParams(connection, statement.sql.c_str(), static_cast<int>(values.size()), nullptr, values.data(),
                             lengths.data(), formats.data(), 0),
                &PQclear);
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
    throw postgres_error("enqueue", connection, result.get());
  return result;
}

EventId first_id(PGconn* connection, const Event& event, const std::string& schema) {
  const Statement statement{.sql = fmt::format("SELECT \"{}\".first_id($1::text, $2::text)", schema),
                            .parameters = {{.value = event.tenant}, {.value = event.dedup_key}}};
  const Result result = run(connection, statement);
  const auto id = EventId::parse(PQntuples(result.get()) == 1 ? PQgetvalue(result.get(), 0, 0) : "");
  if (!id)
    throw Error(Remedy::retry, "enqueue: the dedup_key is used by a transaction that this one cannot see; try again");
  return *id;
}

std::string key_of(const Event& event) {
  return !event.key.empty() ? event.key : event.aggregate.type + '/' + event.aggregate.id;
}

void append_element(std::string& array, const std::optional<std::string>& value, bool bytes) {
  if (array.size() > 1) array += ',';
  if (!value) {
    array += "NULL";
    return;
  }
  array += '"';
  if (bytes) {
    array += "\\\\x";
    for (const char c : *value) fmt::format_to(std::back_inserter(array), "{:02x}", static_cast<unsigned char>(c));
  } else {
    for (const char c : *value) {
      if (c == '"' || c == '\\') array += '\\';
      array += c;
    }
  }
  array += '"';
}

// A lock for each key, in the order of the locks' own numbers: two calls cannot wait for each other. In one statement,
// as arrays: so the order holds for all of them, and there is no limit to how many.
void lock_keys(PGconn* connection, std::span<const Event> events) {
  std::set<std::pair<std::string, std::string>> keys;
  for (const Event& event : events)
    if (!event.key.empty() || !event.aggregate.type.empty()) keys.insert({event.tenant, key_of(event)});
  if (keys.empty()) return;
  std::string tenants = "{";
  std::string names = "{";
  for (const auto& [tenant, key] : keys) {
    append_element(tenants, tenant, false);
    append_element(names, key, false);
  }
  run(connection,
      {.sql = "SELECT pg_catalog.pg_advisory_xact_lock(k.number) FROM (SELECT DISTINCT pg_catalog.hashtextextended("
              "v.key, pg_catalog.hashtextextended(v.tenant, 1)) AS number "
              "FROM ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) v (tenant, key) ORDER BY "
              "1) k",
       .parameters = {{.value = tenants + '}'}, {.value = names + '}'}}});
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

std::int64_t affected(const Result& result) {
  const std::string_view text = PQcmdTuples(result.get());
  std::int64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

}  // namespace

EventId enqueue(pg_conn* connection, const Event& event, const EnqueueOptions& options) {
  const Statement statement = enqueue_statement(event, Dialect::postgresql, options.schema);
  if (options.serialize) lock_keys(connection, std::span(&event, 1));
  const Result result = run(connection, statement);
  return affected(result) == 1 ? statement.id : first_id(connection, event, options.schema);
}

std::vector<EventId> enqueue(pg_conn* connection, std::span<const Event> events, const EnqueueOptions& options) {
  std::vector<EventId> ids;
  if (events.empty()) return ids;
  const Statement statement = batch_statement(events, options.schema, ids);
  if (options.serialize) lock_keys(connection, events);
  if (affected(run(connection, statement)) == std::ssize(events)) return ids;
  for (std::size_t i = 0; i < events.size(); ++i)
    if (!events[i].dedup_key.empty()) ids[i] = first_id(connection, events[i], options.schema);
  return ids;
}

}  // namespace waybill
