#include "waybill/database.h"

#include <charconv>
#include <chrono>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "base/assert.h"
#include "database/connections.h"
#include "database/database_error.h"

namespace waybill {
namespace {

std::string_view begin_sql(Dialect dialect, Isolation isolation) {
  if (dialect == Dialect::sqlite) return "BEGIN IMMEDIATE";
  switch (isolation) {
    case Isolation::repeatable_read:
      return "BEGIN ISOLATION LEVEL REPEATABLE READ";
    case Isolation::serializable:
      return "BEGIN ISOLATION LEVEL SERIALIZABLE";
    case Isolation::read_committed:
      break;
  }
  return "BEGIN ISOLATION LEVEL READ COMMITTED";
}

// A connection may have been lost while nobody used it, which is noticed now: nothing has begun, so it is opened again.
void begin(Connection& connection, const std::string& sql) {
  if (!connection.usable()) connection.reopen();
  try {
    connection.begin(sql);
  } catch (const Error&) {
    if (connection.usable()) throw;
    connection.reopen();
    connection.begin(sql);
  }
}

}  // namespace

Rows::Rows(std::size_t columns, std::vector<std::optional<std::string>> values, std::int64_t affected)
    : columns_(columns), values_(std::move(values)), affected_(affected) {}

const std::optional<std::string>& Rows::at(std::size_t row, std::size_t column) const {
  WAYBILL_ASSERT(row < size() && column < columns_);
  return values_[row * columns_ + column];
}

std::int64_t Rows::integer(std::size_t row, std::size_t column) const {
  const std::string& digits = text(row, column);
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (code != std::errc() || end != digits.data() + digits.size())
    throw Error(Remedy::fix_input, fmt::format("database: column {} is not an integer", column + 1));
  return number;
}

bool Rows::boolean(std::size_t row, std::size_t column) const {
  const std::string& value = text(row, column);
  return value == "t" || value == "1" || value == "true";
}

std::unique_ptr<Connection> connect(const std::string& url) {
  constexpr std::string_view sqlite = "sqlite:";
  return url.starts_with(sqlite) ? connect_sqlite(url.substr(sqlite.size())) : connect_postgres(url);
}

void throw_refusal(std::string_view who, std::string_view sqlstate, std::string_view message) {
  const Error error = postgres_refusal(who, sqlstate, message);
  if (is_collision(sqlstate)) throw Collision(error.what());
  throw error;
}

Transaction::Transaction(Connection& connection, const TransactionOptions& options) : connection_(connection) {
  if (connection.in_transaction())
    throw Error(Remedy::fix_input, "database: a transaction is open on this connection already; end it first");
  begin(connection, std::string(begin_sql(connection.dialect(), options.isolation)));
  if (options.tenant.empty() || connection.dialect() != Dialect::postgresql) return;
  try {
    connection.run("SELECT pg_catalog.set_config('waybill.tenant', $1, true)", options.tenant);
  } catch (...) {
    rollback();
    throw;
  }
}

Transaction::~Transaction() {
  rollback();
}

void Transaction::commit() {
  if (!open_) throw Error(Remedy::fix_input, "database: the transaction has ended already");
  try {
    connection_.commit();
  } catch (...) {
    open_ = connection_.in_transaction();
    throw;
  }
  open_ = false;
}

void Transaction::rollback() noexcept {
  if (!std::exchange(open_, false)) return;
  try {
    if (connection_.in_transaction()) connection_.rollback();
  } catch (const std::exception&) {
    // The connection is lost, and with it the transaction.
  }
}

void detail::wait_before_attempt(int attempt) {
  constexpr int doublings_max = 8;
  thread_local std::mt19937 random(std::random_device{}());
  const int most = 1'000 << std::min(attempt, doublings_max);
  std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution(0, most)(random)));
}

}  // namespace waybill
