#include "store/sqlite/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "waybill/error.h"

#include "base/assert.h"
#include "base/time_text.h"
#include "database/database_error.h"

namespace waybill {
namespace {

constexpr int busy_timeout_ms = 5'000;

[[noreturn]] void raise(sqlite3* connection, std::string_view where) {
  throw sqlite_error(fmt::format("sqlite:{}", where), connection);
}

// There are payloads in it. What SQLite puts beside a database has the same rights. Only a new file is opened here:
// closing a descriptor of one that is in use would drop SQLite's locks on it. Where it cannot be made, SQLite says why.
void make_private(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) ::close(fd);
}

}  // namespace

Query::Query(sqlite3* connection, std::string_view sql, std::string_view where)
    : statement_(nullptr, &sqlite3_finalize), where_(where) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v2(connection, sql.data(), static_cast<int>(sql.size()), &raw, nullptr) != SQLITE_OK)
    raise(connection, where);
  statement_.reset(raw);
}

void Query::fail() const {
  raise(sqlite3_db_handle(statement_.get()), where_);
}

Query& Query::bind(int index, std::int64_t value) {
  if (sqlite3_bind_int64(statement_.get(), index, value) != SQLITE_OK) fail();
  return *this;
}

Query& Query::bind(int index, std::string_view value) {
  if (sqlite3_bind_text64(statement_.get(), index, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8) !=
      SQLITE_OK)
    fail();
  return *this;
}

Query& Query::bind_null(int index) {
  if (sqlite3_bind_null(statement_.get(), index) != SQLITE_OK) fail();
  return *this;
}

Query& Query::bind(int index, const Query& row, int column) {
  if (sqlite3_bind_value(statement_.get(), index, sqlite3_column_value(row.statement_.get(), column)) != SQLITE_OK)
    fail();
  return *this;
}

bool Query::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) fail();
  sqlite3_reset(statement_.get());
  return false;
}

void Query::run() {
  const bool row = step();
  WAYBILL_ASSERT(!row);
}

void Query::reset() {
  sqlite3_reset(statement_.get());
}

std::string_view Query::text(int column) const {
  // As a blob: the bytes as they are, also those of texts with a NUL in them.
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::optional<Time> Query::time(int column) const {
  return null(column) ? std::nullopt : parse_rfc3339(text(column));
}

Database::Database(const std::string& path, Mode mode) : connection_(nullptr, &sqlite3_close), path_(path) {
  const int flags = mode == Mode::read    ? SQLITE_OPEN_READONLY
                    : mode == Mode::write ? SQLITE_OPEN_READWRITE
                                          : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  if (mode == Mode::create) make_private(path);
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  connection_.reset(raw);
  if (code != SQLITE_OK) raise(raw, path_);
  sqlite3_busy_timeout(raw, busy_timeout_ms);
  run("PRAGMA foreign_keys = ON");
  number("SELECT count(*) FROM sqlite_schema");  // Finds out now whether it is a database at all.
}

void Database::run(const std::string& sql) const {
  if (sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    raise(connection_.get(), path_);
}

std::int64_t Database::number(std::string_view sql) const {
  Query query = this->query(sql);
  return query.step() ? query.integer(0) : 0;
}

SqliteTransaction::SqliteTransaction(const Database& database) : database_(database) {
  database_.run("BEGIN IMMEDIATE");
}

SqliteTransaction::~SqliteTransaction() {
  if (open_) sqlite3_exec(database_.raw(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void SqliteTransaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

}  // namespace waybill
