#include <charconv>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "waybill/database.h"
#include "waybill/error.h"

#include "database/connections.h"
#include "database/database_error.h"

namespace waybill {
namespace {

constexpr int busy_timeout_ms = 5'000;

using Prepared = std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)>;
using Handle = std::unique_ptr<sqlite3, decltype(&sqlite3_close)>;

[[noreturn]] void fail(sqlite3* connection) {
  const int code = sqlite3_extended_errcode(connection) & 0xFF;
  const Error error = sqlite_error("sqlite", connection);
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) throw Collision(error.what());
  throw error;
}

Handle open(const std::string& path) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE, nullptr);
  Handle handle(raw, &sqlite3_close);
  if (code != SQLITE_OK) throw sqlite_error(fmt::format("sqlite:{}", path), raw);
  sqlite3_busy_timeout(raw, busy_timeout_ms);
  if (sqlite3_exec(raw, "PRAGMA foreign_keys = ON", nullptr, nullptr, nullptr) != SQLITE_OK) fail(raw);
  return handle;
}

// $1 is a name to SQLite, ?1 a number.
int index_of(sqlite3_stmt* statement, std::size_t number) {
  const int named = sqlite3_bind_parameter_index(statement, fmt::format("${}", number).c_str());
  return named != 0 ? named : sqlite3_bind_parameter_index(statement, fmt::format("?{}", number).c_str());
}

template <typename Number>
std::optional<Number> number_from(const std::string& text) {
  Number number{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

int bind_number(sqlite3_stmt* statement, int index, const std::string& text) {
  if (const auto integer = number_from<std::int64_t>(text)) return sqlite3_bind_int64(statement, index, *integer);
  const bool is_integer = text.find_first_not_of("-0123456789") == std::string::npos;
  const auto fraction = is_integer ? std::nullopt : number_from<double>(text);
  if (!fraction)
    throw Error(Remedy::fix_input, fmt::format("sqlite: parameter {} is no number that it can hold", index));
  return sqlite3_bind_double(statement, index, *fraction);
}

int bind(sqlite3_stmt* statement, int index, const Parameter& parameter) {
  if (!parameter.value) return sqlite3_bind_null(statement, index);
  const std::string& value = *parameter.value;
  // The parameters outlive the statement: SQLite need not copy them.
  if (parameter.bytes) return sqlite3_bind_blob64(statement, index, value.data(), value.size(), SQLITE_STATIC);
  if (parameter.number) return bind_number(statement, index, value);
  return sqlite3_bind_text64(statement, index, value.data(), value.size(), SQLITE_STATIC, SQLITE_UTF8);
}

std::optional<std::string> value_at(sqlite3_stmt* statement, int column) {
  if (sqlite3_column_type(statement, column) == SQLITE_NULL) return std::nullopt;
  // As a blob: the bytes as they are, also those of texts with a NUL in them.
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
  return std::string(bytes ? bytes : "", static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
}

class SqliteConnection final : public Connection {
 public:
  explicit SqliteConnection(sqlite3* borrowed) : own_(nullptr, &sqlite3_close), raw_(borrowed) {}
  explicit SqliteConnection(const std::string& path) : own_(open(path)), raw_(own_.get()) {}

  Dialect dialect() const override { return Dialect::sqlite; }
  bool in_transaction() const override { return begun_ || !between_transactions(); }
  bool usable() const override { return true; }
  void reopen() override {}

  Rows execute(std::string_view sql, std::span<const Parameter> parameters) override {
    expect_transaction();
    std::string_view rest = sql;
    const Prepared prepared = prepare_next(rest);
    if (!prepared) throw Error(Remedy::fix_input, "sqlite: the statement is empty");
    if (prepare_next(rest))
      throw Error(Remedy::fix_input, "sqlite: these are several statements: run them as a script");
    if (const int count = sqlite3_bind_parameter_count(prepared.get()); count != std::ssize(parameters))
      throw Error(Remedy::fix_input, fmt::format("sqlite: the statement has {} parameters, and {} values were given",
                                                 count, parameters.size()));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const int index = index_of(prepared.get(), i + 1);
      if (index == 0) throw Error(Remedy::fix_input, fmt::format("sqlite: the statement has no parameter ${}", i + 1));
      if (bind(prepared.get(), index, parameters[i]) != SQLITE_OK) fail(raw_);
    }
    const auto changes_before = sqlite3_total_changes64(raw_);
    std::vector<std::optional<std::string>> values;
    const int columns = sqlite3_column_count(prepared.get());
    int code = SQLITE_ROW;
    while ((code = sqlite3_step(prepared.get())) == SQLITE_ROW)
      for (int column = 0; column < columns; ++column) values.push_back(value_at(prepared.get(), column));
    if (code != SQLITE_DONE) fail(raw_);
    // The number of changes is that of the last statement that has made any.
    const bool changed = sqlite3_total_changes64(raw_) != changes_before;
    return {static_cast<std::size_t>(columns), std::move(values), changed ? sqlite3_changes64(raw_) : 0};
  }

  void script(const std::string& sql) override {
    expect_transaction();
    if (sqlite3_exec(raw_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail(raw_);
  }

  void begin(const std::string& sql) override {
    script(sql);
    begun_ = true;
  }
  void commit() override {
    if (between_transactions() && std::exchange(begun_, false)) throw_ended();
    try {
      script("COMMIT");
    } catch (...) {
      begun_ = begun_ && !between_transactions();
      throw;
    }
    begun_ = false;
  }
  void rollback() override {
    begun_ = false;
    if (!between_transactions()) script("ROLLBACK");
  }

 private:
  bool between_transactions() const { return sqlite3_get_autocommit(raw_) != 0; }

  // Some failures (a full disk, ON CONFLICT ROLLBACK) end the whole transaction: what follows would run by itself.
  void expect_transaction() const {
    if (begun_ && between_transactions()) throw_ended();
  }
  [[noreturn]] static void throw_ended() {
    throw Error(Remedy::retry, "sqlite: the transaction has been ended by one of its statements; begin it again");
  }

  // The first statement, which is taken off `sql`; none if there is nothing but blanks and comments.
  Prepared prepare_next(std::string_view& sql) const {
    sqlite3_stmt* raw = nullptr;
    const char* rest = nullptr;
    if (sqlite3_prepare_v2(raw_, sql.data(), static_cast<int>(sql.size()), &raw, &rest) != SQLITE_OK) fail(raw_);
    if (rest) sql.remove_prefix(static_cast<std::size_t>(rest - sql.data()));
    return {raw, &sqlite3_finalize};
  }

  Handle own_;
  sqlite3* raw_;
  bool begun_ = false;  // by Transaction, and not ended by it
};

}  // namespace

std::unique_ptr<Connection> borrow(sqlite3* connection) {
  return std::make_unique<SqliteConnection>(connection);
}

std::unique_ptr<Connection> connect_sqlite(const std::string& path) {
  return std::make_unique<SqliteConnection>(path);
}

}  // namespace waybill
