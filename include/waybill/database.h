#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "waybill/api.h"
#include "waybill/error.h"

struct pg_conn;  // libpq's PGconn
struct sqlite3;

// The application's own database, as far as this library needs it: a connection on which statements run one after the
// other. Who has one lends it: borrow(), or waybill/pqxx.h for libpqxx. Who has none opens one here.
namespace WAYBILL_API waybill {

enum class Dialect { postgresql, sqlite };

// A value of a statement.
struct Parameter {
  std::optional<std::string> value{};  // None: NULL.
  bool bytes = false;                  // `value` is raw bytes for a binary column, not text.
  bool number = false;                 // SQLite keeps it as a number, also where the column has no type.
};
inline Parameter parameter(Parameter value) {
  return value;
}
inline Parameter parameter(std::nullopt_t) {
  return {};
}
inline Parameter parameter(std::string_view text) {
  return {.value = std::string(text)};
}
// True is 1, which PostgreSQL's boolean takes, too. What has a fraction's type and is too large for any integer is
// written with an exponent, so that nobody takes it for one.
template <typename Number>
requires std::is_arithmetic_v<Number> Parameter parameter(Number number) {
  constexpr auto integers_end = 0x1p63;
  std::array<char, 32> digits{};
  std::to_chars_result end{};
  if constexpr (std::same_as<Number, bool>) {
    end = std::to_chars(digits.data(), digits.data() + digits.size(), static_cast<int>(number));
  } else if (std::is_floating_point_v<Number> &&
             (static_cast<double>(number) >= integers_end || static_cast<double>(number) < -integers_end)) {
    end = std::to_chars(digits.data(), digits.data() + digits.size(), static_cast<double>(number),
                        std::chars_format::scientific);
  } else {
    end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  }
  return {.value = std::string(digits.data(), end.ptr), .number = true};
}
template <typename T>
Parameter parameter(const std::optional<T>& value) {
  return value ? parameter(*value) : Parameter{};
}
inline Parameter bytes(std::string_view raw) {
  return {.value = std::string(raw), .bytes = true};
}

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

// Another transaction was in the way (40001, 40P01, SQLITE_BUSY). Begun again from its start, this one may go through;
// see with_retries().
class Collision : public Error {
 public:
  explicit Collision(const std::string& text) : Error(Remedy::retry, text) {}
};

// A line to a database. Used by one thread at a time; nothing else is sent through what was lent while a call runs.
class Connection {
 public:
  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection() = default;

  virtual Dialect dialect() const = 0;
  // Runs one statement with parameters $1, $2, …, in the current transaction or, without one, by itself. Throws Error:
  // after one a PostgreSQL transaction can only be rolled back. Error(unknown): the connection was lost while a
  // statement ran by itself, and it may have taken effect.
  virtual Rows execute(std::string_view sql, std::span<const Parameter> parameters) = 0;
  // Runs several statements, without parameters.
  virtual void script(const std::string& sql) = 0;
  // Is a transaction open? What was begun by Transaction is until it was ended there, also if the database has ended it
  // by itself meanwhile: nothing runs without the transaction that it was meant for.
  virtual bool in_transaction() const = 0;
  // Begin and end the one of Transaction; see there. `sql` is the database's BEGIN.
  virtual void begin(const std::string& sql) { script(sql); }
  virtual void commit() = 0;
  virtual void rollback() { script("ROLLBACK"); }
  // Can it be used? Not after the server has gone. A connection that was opened here can then be opened again; of one
  // that was lent, reopen() throws Error.
  virtual bool usable() const = 0;
  virtual void reopen() = 0;

  // run("UPDATE room SET free = $1 WHERE id = $2", true, "r-7")
  template <typename... Values>
  Rows run(std::string_view sql, const Values&... values) {
    const std::array<Parameter, sizeof...(values)> parameters{parameter(values)...};
    return execute(sql, parameters);
  }

  // PostgreSQL: a statement has told the number of the current transaction, so that commit() need not ask for it.
  void note_transaction(std::string number) { transaction_ = std::move(number); }

 protected:
  std::string transaction_;
};

// "postgresql://…" as libpq takes it, or "sqlite:FILE", which must exist. Nothing is prepared by name and nothing is
// set for the session: a pooler in transaction mode may be in between.
std::unique_ptr<Connection> connect(const std::string& url);

// The caller's own, which must outlive it and stays his to close.
std::unique_ptr<Connection> borrow(pg_conn* connection);
std::unique_ptr<Connection> borrow(sqlite3* connection);

// For an adapter of one's own: throws what it means that a PostgreSQL server refused something. `who` opens the text.
[[noreturn]] void throw_refusal(std::string_view who, std::string_view sqlstate, std::string_view message);

enum class Isolation { read_committed, repeatable_read, serializable };

struct TransactionOptions {
  Isolation isolation = Isolation::read_committed;  // SQLite's is always serializable.
  // PostgreSQL: the rows of this tenant are what the transaction sees and writes, where the user's role is not that of
  // all tenants; and whatever the role, events are enqueued and appended for this tenant alone. An event that is
  // enqueued need not name it again; a stream is always named in full. Empty: as the user's own setting waybill.tenant
  // says.
  std::string tenant{};
};

// A transaction that is rolled back unless it is committed. SQLite's begins with the right to write, so that it cannot
// fail for the lack of it later.
class Transaction {
 public:
  // Opens the connection again if it must and can. Throws Error(fix_input) if a transaction is open on it.
  explicit Transaction(Connection& connection, const TransactionOptions& options = {});
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();

  // If the server's answer was lost, it is asked on a new connection what became of the transaction, for ten seconds;
  // if it was rolled back, Error(retry). Throws Error(unknown) if that cannot be found out: it may be committed. It
  // cannot if the server has been started anew since, has crashed, is older than 15 and says "committed" (it may have
  // crashed, and given the transaction's number to another); or if the transaction had written nothing here: what it
  // does at its end, a NOTIFY or on foreign servers, leaves no trace.
  // After an Error it has ended, too, unless open() says otherwise (SQLite: it may be tried again).
  void commit();
  // Does not fail: what cannot be rolled back is lost with its connection.
  void rollback() noexcept;
  // Not committed yet, nor rolled back.
  bool open() const { return open_; }

  Connection& connection() { return connection_; }

 private:
  Connection& connection_;
  bool open_ = true;
};

struct RetryOptions {
  int attempts = 10;  // The first included.
  TransactionOptions transaction{};
};

namespace detail {
// Longer and longer, by chance: those who were in each other's way must not meet again.
void wait_before_attempt(int attempt);

template <typename Attempt>
auto until_it_goes_through(int attempts, const Attempt& attempt) {
  for (int number = 1;; ++number) {
    try {
      return attempt();
    } catch (const Collision&) {
      if (number >= attempts) throw;
    }
    wait_before_attempt(number + 1);
  }
}
}  // namespace detail

// Runs `work` in a transaction and commits it. What ended because another was in the way (a Collision; also a Conflict
// of versions) is begun again, whole: `work` must have no other effects, and must read again what it decides on.
// Returns what `work` returns.
template <std::invocable<Connection&> Work>
auto with_retries(Connection& connection, const Work& work, const RetryOptions& options = {}) {
  return detail::until_it_goes_through(options.attempts, [&] {
    Transaction transaction(connection, options.transaction);
    if constexpr (std::is_void_v<std::invoke_result_t<const Work&, Connection&>>) {
      work(connection);
      transaction.commit();
    } else {
      auto result = work(connection);
      transaction.commit();
      return result;
    }
  });
}

}  // namespace waybill
