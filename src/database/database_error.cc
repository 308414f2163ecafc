#include "database/database_error.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>
#include <libpq-fe.h>
#include <sqlite3.h>

namespace waybill {
namespace {

// Connection, rollback, resources (disk full, too many connections), operator intervention, the server's own system.
constexpr std::array<std::string_view, 5> retry_classes{"08", "40", "53", "57", "58"};
constexpr std::array<std::string_view, 8> retry_states{
    "55P03",  // a lock was not to be had
    "25006",  // a standby, which may yet be promoted
    "25P02",  // the transaction failed before; from its beginning it may work
    "25P03",  // idle in a transaction for too long
    "25P04",  // a transaction that took too long
    "26000",  // a prepared statement that is gone: a pooler, or DEALLOCATE ALL
    "55006",  // in use
    "XX000",  // internal
};

template <typename Texts>
bool contains(const Texts& texts, std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// What was written is wrong, not the database: data, constraints, what a trigger or function of the application raises,
// more than one row where one may be, a view's check, limits of sizes.
constexpr std::array<std::string_view, 6> input_classes{"21", "22", "23", "44", "54", "P0"};

// "cached plan must not change result type", whatever the server's language: a migration has changed a table. The same
// statement works once it is prepared anew.
bool is_stale_plan(std::string_view state, const PGresult* result) {
  const char* function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);
  return state == "0A000" && function && std::string_view(function) == "RevalidateCachedQuery";
}

template <std::size_t count>
bool ends_with_one_of(std::string_view message, const std::array<std::string_view, count>& names) {
  while (message.ends_with('"')) message.remove_suffix(1);
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    if (!message.ends_with(name)) return false;
    const std::string_view before = message.substr(0, message.size() - name.size());
    return before.empty() || before.ends_with(' ') || before.ends_with('"');
  });
}

// The server names the table or function at the end of its message, and we know which role may use it. The roles are
// named after the schema. (The program says more: it knows the schema, and what it was about to do.)
std::string_view way_to_role(std::string_view message) {
  constexpr std::array<std::string_view, 5> events{"event", "dedup", "enqueue", "first_id", "new_id"};
  constexpr std::array<std::string_view, 11> services{
      "stream_event", "snapshot",   "inbox",      "idempotency",       "projection",     "projection_progress",
      "append",       "try_append", "first_time", "idempotency_begin", "idempotency_end"};
  if (message.find("waybill.tenant") != std::string_view::npos) return "";  // Ours, and says what to do.
  if (ends_with_one_of(message, events)) return "; grant this user the role waybill_enqueue";
  if (ends_with_one_of(message, services))
    return "; grant this user the role waybill_service, or name the transaction's tenant (waybill.tenant)";
  return "; grant this user the role waybill_enqueue to write events, or waybill_service to use streams, the inbox, "
         "idempotency keys and projections as well";
}

std::string_view way_out(std::string_view state, std::string_view message) {
  if (state == "42P01" || state == "3F000" || state == "42883" || state == "42703")
    return "; run 'waybill migrate' on this database";
  if (state == "42501") return way_to_role(message);
  if (state == "25006")
    return "; this is a standby, or default_transaction_read_only is on: name the primary, or turn that off";
  if (state == "53100") return "; make room on the server's disk";
  if (state == "53200") return "; lock fewer keys in one transaction, or raise max_locks_per_transaction";
  return "";
}

std::string_view way_out(int code, std::string_view text) {
  switch (code & 0xFF) {
    case SQLITE_NOTADB:
      return "; name another file, this one is no SQLite database";
    case SQLITE_CORRUPT:
      return "; restore it from a backup";
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return "; the file and its folder must be writable";
    case SQLITE_CANTOPEN:
      return "; the folder must exist and be accessible";
    case SQLITE_FULL:
      return "; make room on the disk";
    default:
      return text.find("no such table") != std::string_view::npos ? "; run 'waybill migrate' on it" : "";
  }
}

// `invalid input syntax for type integer: "…"`: what is wrong with data is said by quoting it, and data do not belong
// in logs. What our own functions say (22023) does not, and of a wrong encoding it is the encoding's name.
bool quotes_data(std::string_view sqlstate) {
  return sqlstate.starts_with("22") && sqlstate != "22023" && sqlstate != "22021" && sqlstate != "22P05";
}

// Without what is between quotation marks, of any language.
std::string without_value(const std::string& text) {
  constexpr std::array<std::string_view, 6> marks{"\"", "«", "»", "„", "“", "”"};
  std::size_t begin = text.size();
  std::size_t end = 0;
  for (const std::string_view mark : marks) {
    if (const auto at = text.find(mark); at != std::string::npos) begin = std::min(begin, at);
    if (const auto at = text.rfind(mark); at != std::string::npos) end = std::max(end, at + mark.size());
  }
  return begin < end ? text.substr(0, begin) + "'…'" + text.substr(end) : text;
}

}  // namespace

std::string one_line(std::string_view message) {
  std::string text(message);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text)
    if (c == '\n' || c == '\t') c = ' ';
  return text;
}

Remedy postgres_remedy(std::string_view sqlstate) {
  const std::string_view kind = sqlstate.substr(0, 2);
  if (contains(retry_classes, kind) || contains(retry_states, sqlstate)) return Remedy::retry;
  return contains(input_classes, kind) ? Remedy::fix_input : Remedy::fix_config;
}

bool is_collision(std::string_view sqlstate) {
  return sqlstate == "40001" || sqlstate == "40P01";
}

Error postgres_refusal(std::string_view who, std::string_view sqlstate, std::string_view message) {
  const std::string text = one_line(message);
  return {postgres_remedy(sqlstate),
          fmt::format("{}: {}{}", who, quotes_data(sqlstate) ? without_value(text) : text, way_out(sqlstate, text))};
}

Error postgres_error(std::string_view who, const pg_conn* connection, const pg_result* result) {
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  // Without a code it is libpq that speaks: the connection is lost, or it cannot take the statement.
  if (!state)
    return {PQstatus(connection) == CONNECTION_BAD ? Remedy::retry : Remedy::fix_input,
            fmt::format("{}: {}", who, one_line(PQerrorMessage(connection)))};
  const char* message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  Error error = postgres_refusal(who, state, message ? message : "?");
  return is_stale_plan(state, result) ? Error(Remedy::retry, error.what()) : error;
}

Remedy sqlite_remedy(int code) {
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_NOMEM:
    case SQLITE_PROTOCOL:
    case SQLITE_SCHEMA:
    case SQLITE_INTERRUPT:
      return Remedy::retry;
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
      return Remedy::fix_input;
    default:
      return Remedy::fix_config;
  }
}

Error sqlite_error(std::string_view who, sqlite3* connection) {
  const int code = connection ? sqlite3_extended_errcode(connection) : SQLITE_NOMEM;
  const std::string_view text = connection ? sqlite3_errmsg(connection) : "out of memory";
  return {sqlite_remedy(code), fmt::format("{}: {}{}", who, text, way_out(code, text))};
}

}  // namespace waybill
