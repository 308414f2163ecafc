#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pqxx/pqxx>

#include "waybill/database.h"

// libpqxx's connections and transactions, lent to this library; through its public interface (6.4 and later). A header
// of its own: the library does not need libpqxx.
namespace waybill {

namespace detail {

class PqxxAdapter : public Connection {
 public:
  Dialect dialect() const override { return Dialect::postgresql; }
  void reopen() override {
    throw Error(Remedy::retry, "libpqxx: the connection is lost; whoever has lent it must open it again");
  }

 protected:
  static Rows execute_in(pqxx::transaction_base& transaction, std::string_view sql,
                         std::span<const Parameter> parameters) {
    std::vector<std::string> hexadecimal;  // Bytes go as text: so all parameters are of one kind.
    hexadecimal.reserve(parameters.size());
    std::vector<const char*> values;
    for (const Parameter& parameter : parameters) {
      if (!parameter.value) {
        values.push_back(nullptr);
      } else if (parameter.bytes) {
        values.push_back(hexadecimal.emplace_back(hexadecimal_of(*parameter.value)).c_str());
      } else if (parameter.value->find('\0') != std::string::npos) {
        throw Error(Remedy::fix_input, "libpqxx: a text has a NUL in it, which the server cannot hold");
      } else {
        values.push_back(parameter.value->c_str());
      }
    }
    return rows_of(transaction.exec_params(std::string(sql), pqxx::prepare::make_dynamic_params(values)));
  }

  // What `work` throws of libpqxx's, as an Error.
  template <typename Work>
  static auto translated(const Work& work) {
    try {
      return work();
    } catch (const pqxx::serialization_failure& failure) {
      throw Collision(failure.what());
    } catch (const pqxx::deadlock_detected& failure) {
      throw Collision(failure.what());
    } catch (const pqxx::sql_error& refusal) {
      throw_refusal("libpqxx", refusal.sqlstate(), refusal.what());
    } catch (const pqxx::in_doubt_error& failure) {
      throw Error(Remedy::unknown, failure.what());
    } catch (const pqxx::broken_connection& failure) {
      throw Error(Remedy::retry, failure.what());
    }
  }

 private:
  static std::string hexadecimal_of(std::string_view bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text = "\\x";
    for (const char byte : bytes) {
      text += digits[static_cast<unsigned char>(byte) >> 4U];
      text += digits[static_cast<unsigned char>(byte) & 15U];
    }
    return text;
  }

  static Rows rows_of(const pqxx::result& result) {
    std::vector<std::optional<std::string>> values;
    for (const auto& row : result) {
      for (const auto& field : row) {
        if (field.is_null()) {
          values.emplace_back();
        } else {
          values.emplace_back(std::in_place, field.c_str(), field.size());
        }
      }
    }
    return {static_cast<std::size_t>(result.columns()), std::move(values),
            static_cast<std::int64_t>(result.affected_rows())};
  }
};

// A connection without a transaction of libpqxx's: ours are begun and ended by statements.
class PqxxConnection final : public PqxxAdapter {
 public:
  explicit PqxxConnection(pqxx::connection& connection) : connection_(connection) {}

  Rows execute(std::string_view sql, std::span<const Parameter> parameters) override {
    return translated([&] {
      pqxx::nontransaction direct(connection_);
      return execute_in(direct, sql, parameters);
    });
  }
  void script(const std::string& sql) override {
    translated([&] {
      pqxx::nontransaction direct(connection_);
      direct.exec(sql);
    });
    if (sql.starts_with("BEGIN")) open_ = true;
    if (sql.starts_with("ROLLBACK") && !sql.starts_with("ROLLBACK TO")) open_ = false;
  }
  bool in_transaction() const override { return open_; }
  bool usable() const override { return connection_.is_open(); }

  // A lost answer is not found out: Error(unknown).
  void commit() override {
    open_ = false;
    try {
      // The server takes the COMMIT of a failed transaction for a ROLLBACK, which is no error to it. To ask is one.
      execute("SELECT 1", {});
    } catch (const Error&) {
      if (usable()) script("ROLLBACK");
      throw;
    }
    try {
      script("COMMIT");
    } catch (const Error& error) {
      if (usable()) throw;
      throw Error(Remedy::unknown,
                  std::string(error.what()) + ": the connection was lost during COMMIT; it may have " + "taken effect");
    }
  }

 private:
  pqxx::connection& connection_;
  bool open_ = false;
};

// A transaction that libpqxx has begun and that its owner ends.
class PqxxTransaction final : public PqxxAdapter {
 public:
  explicit PqxxTransaction(pqxx::transaction_base& transaction) : transaction_(transaction) {}

  Rows execute(std::string_view sql, std::span<const Parameter> parameters) override {
    return translated([&] { return execute_in(transaction_, sql, parameters); });
  }
  void script(const std::string& sql) override {
    translated([&] { transaction_.exec(sql); });
  }
  bool in_transaction() const override { return true; }
  bool usable() const override { return transaction_.conn().is_open(); }
  void commit() override { throw Error(Remedy::fix_input, "libpqxx: whoever has begun the transaction commits it"); }

 private:
  pqxx::transaction_base& transaction_;
};

}  // namespace detail

// The caller's own, which must outlive it. REQUIRES: nobody else has a transaction on the connection while it is used.
inline std::unique_ptr<Connection> borrow(pqxx::connection& connection) {
  return std::make_unique<detail::PqxxConnection>(connection);
}

// To enqueue, append and so on in a transaction that is begun and committed by the caller.
inline std::unique_ptr<Connection> borrow(pqxx::transaction_base& transaction) {
  return std::make_unique<detail::PqxxTransaction>(transaction);
}

}  // namespace waybill
