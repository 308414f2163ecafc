#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sqlite3.h>

#include "waybill/time.h"

namespace waybill {

// A prepared statement. Bind, step, read columns; reset() to run it again. Used by one thread.
class Query {
 public:
  Query(sqlite3* connection, std::string_view sql, std::string_view where);

  Query& bind(int index, std::int64_t value);
  Query& bind(int index, std::string_view value);
  Query& bind_null(int index);
  // What stands in a column of another query's row.
  Query& bind(int index, const Query& row, int column);

  // Is there another row?
  bool step();
  // For statements without rows: runs to the end, and is ready to run again.
  void run();
  void reset();

  bool null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  // Valid until the next step.
  std::string_view text(int column) const;
  // None if it is null, or no RFC 3339.
  std::optional<Time> time(int column) const;

 private:
  [[noreturn]] void fail() const;

  std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement_;
  std::string where_;
};

// A connection to one database file. Used by one thread.
class Database {
 public:
  enum class Mode { read, write, create };

  // Throws Error that says which file, and what to do.
  Database(const std::string& path, Mode mode);

  Query query(std::string_view sql) const { return {connection_.get(), sql, path_}; }
  void run(const std::string& sql) const;
  std::int64_t number(std::string_view sql) const;
  sqlite3* raw() const { return connection_.get(); }

 private:
  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> connection_;
  std::string path_;
};

// A transaction that writes. Destroyed without commit(), it is rolled back.
class SqliteTransaction {
 public:
  explicit SqliteTransaction(const Database& database);
  ~SqliteTransaction();
  SqliteTransaction(const SqliteTransaction&) = delete;
  SqliteTransaction& operator=(const SqliteTransaction&) = delete;
  void commit();

 private:
  const Database& database_;
  bool open_ = true;
};

}  // namespace waybill
