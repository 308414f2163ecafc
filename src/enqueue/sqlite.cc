#include <memory>

#include <fmt/format.h>
#include <sqlite3.h>

#include "waybill/enqueue.h"
#include "waybill/error.h"

#include "enqueue/database_error.h"

namespace waybill {
namespace {

[[noreturn]] void fail(sqlite3* connection) {
  throw sqlite_error("enqueue", connection);
}

using Prepared = std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)>;

Prepared prepare(sqlite3* connection, const Statement& statement) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(connection, statement.sql.data(), static_cast<int>(statement.sql.size()), &raw, nullptr) !=
      SQLITE_OK)
    fail(connection);
  Prepared prepared(raw, &sqlite3_finalize);
  int index = 0;
  for (const Parameter& parameter : statement.parameters) {
    ++index;
    const auto size = static_cast<sqlite3_uint64>(parameter.value->size());
    // The parameters outlive the statement: SQLite need not copy them.
    const int code = parameter.bytes
                         ? sqlite3_bind_blob64(raw, index, parameter.value->data(), size, SQLITE_STATIC)
                         : sqlite3_bind_text64(raw, index, parameter.value->data(), size, SQLITE_STATIC, SQLITE_UTF8);
    if (code != SQLITE_OK) fail(connection);
  }
  return prepared;
}

EventId first_id(sqlite3* connection, const Event& event) {
  const Statement statement{.sql = "SELECT id FROM waybill_dedup WHERE tenant = ?1 AND key = ?2",
                            .parameters = {{.value = event.tenant}, {.value = event.dedup_key}}};
  const Prepared prepared = prepare(connection, statement);
  if (sqlite3_step(prepared.get()) != SQLITE_ROW) fail(connection);
  const auto* text = static_cast<const char*>(static_cast<const void*>(sqlite3_column_text(prepared.get(), 0)));
  const auto id = EventId::parse(text ? text : "");
  if (!id) throw Error(Remedy::fix_config, "enqueue: the table waybill_dedup holds an id that is no UUID");
  return *id;
}

}  // namespace

EventId enqueue(sqlite3* connection, const Event& event) {
  const Statement statement = enqueue_statement(event, Dialect::sqlite);
  const Prepared prepared = prepare(connection, statement);
  const auto changes_before = sqlite3_total_changes64(connection);
  if (sqlite3_step(prepared.get()) != SQLITE_DONE) fail(connection);
  if (event.dedup_key.empty() || sqlite3_total_changes64(connection) != changes_before) return statement.id;
  return first_id(connection, event);
}

std::vector<EventId> enqueue(sqlite3* connection, std::span<const Event> events) {
  // All or none, whether or not the application has begun a transaction.
  const auto run = [&](const char* sql) {
    if (sqlite3_exec(connection, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail(connection);
  };
  run("SAVEPOINT waybill_enqueue");
  try {
    std::vector<EventId> ids;
    ids.reserve(events.size());
    for (const Event& event : events) ids.push_back(enqueue(connection, event));
    run("RELEASE waybill_enqueue");
    return ids;
  } catch (const Error&) {
    sqlite3_exec(connection, "ROLLBACK TO waybill_enqueue; RELEASE waybill_enqueue", nullptr, nullptr, nullptr);
    throw;
  }
}

}  // namespace waybill
