#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct pg_conn;  // libpq's PGconn
struct sqlite3;

// The application's own database, as far as this library needs it: a connection on which statements run one after the
// other. Who has one lends it: borrow(), or waybill/pqxx.h for libpqxx. Who has none opens one here.
namespace waybill {

enum class Dialect { postgresql, sqlite };

// A value of a statement.
struct Parameter {
  std::optional<std::string> value{};  // None: NULL.
  bool bytes = false;                  // `value` is raw bytes for a binary column, not text.
};
Parameter parameter(std::nullopt_t);
Parameter parameter(std::string_view text);
Parameter parameter(bool value);
Parameter parameter(double value);
template <std::integral Number>
Parameter parameter(Number number);
template <typename T>
Parameter parameter(const std::optional<T>& value);

// What a statement returned: values as text, as the database writes them.
class Rows {
 public:
  // By an adapter: row after row, `columns` values each.
  Rows(std::size_t columns, std::vector<std::optional<std::string>> values, std::int64_t affected);

  std::size_t size() const { return columns_ == 0 ? 0 : values_.size() / columns_; }
  bool empty() const { return size() == 0; }
  bool null(std::size_t row, std::size_t column) const { return !at(row, column).has_value(); }
  // REQUIRES: not null.
  const std::string& text(std::size_t row, std::size_t column) const { return at(row, column).value(); }
  // Throws Error(fix_input) if it is not a number.
  std::int64_t integer(std::size_t row, std::size_t column) const;
  bool boolean(std::size_t row, std::size_t column) const;
  // How many rows were written, by a statement that writes.
  std::int64_t affected() const { return affected_; }

 private:
  const std::optional<std::string>& at(std::size_t row, std::size_t column) const;

  std::size_t columns_;
  std::vector<std::optional<std::string>> values_;
  std::int64_t affected_;
};

// A line to a database. Used by one thread at a time; nothing else is sent through what was lent while a call runs.
class Connection {
 public:
  virtual ~Connection() = default;

  virtual Dialect dialect() const = 0;
  // Runs one statement with parameters $1, $2, …, in the current transaction or, without one, by itself. Throws Error:
  // after one a PostgreSQL transaction can only be rolled back.
  virtual Rows run(std::string_view sql, std::span<const Parameter> parameters) = 0;
  // Is a transaction open?
  virtual bool in_transaction() const = 0;
  // Can it be used? Not after the server has gone. A connection that was opened here can then be opened again.
  virtual bool usable() const = 0;
  virtual void reopen() = 0;

  // run("UPDATE room SET free = $1 WHERE id = $2", true, "r-7")
  template <typename... Values>
  Rows run(std::string_view sql, const Values&... values);
};

// "postgresql://…" as libpq takes it, or "sqlite:FILE". Nothing is prepared by name and nothing is set for the session:
// a pooler in transaction mode may be in between.
std::unique_ptr<Connection> connect(const std::string& url);

// The caller's own, which must outlive it and stays his to close.
std::unique_ptr<Connection> borrow(pg_conn* connection);
std::unique_ptr<Connection> borrow(sqlite3* connection);

enum class Isolation { read_committed, repeatable_read, serializable };

// A transaction that is rolled back unless it is committed. SQLite's begins with the right to write, so that it cannot
// fail for the lack of it later; the isolation is always serializable there.
class Transaction {
 public:
  // REQUIRES: no transaction is open on the connection.
  explicit Transaction(Connection& connection, Isolation isolation = Isolation::read_committed);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();

  // Throws Error(unknown) if the server's answer was lost and cannot be found out any more: it may be committed.
  // If the answer was lost and a new connection can be made, the server is asked what became of the transaction.
  void commit();
  void rollback();

  Connection& connection() { return connection_; }

 private:
  Connection& connection_;
  bool open_ = true;
};

struct RetryOptions {
  int attempts = 10;  // The first included.
};

// Runs `work` in a transaction and commits it. What the database ended because it was in another's way (40001, 40P01,
// SQLITE_BUSY) is begun again, whole: `work` must have no other effects. Returns what `work` returns.
template <std::invocable<Connection&> Work>
auto with_retries(Connection& connection, const Work& work, const RetryOptions& options = {},
                  Isolation isolation = Isolation::read_committed);

}  // namespace waybill
