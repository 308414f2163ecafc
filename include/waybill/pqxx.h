#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <pqxx/pqxx>

#include "waybill/api.h"
#include "waybill/database.h"

// libpqxx's connections and transactions, lent to this library; through its public interface (6.4 and later). A header
// of its own: the library does not need libpqxx.
namespace WAYBILL_API waybill {

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

  // What `work` throws of libpqxx's, as an Error. `if_lost`: what to do if the connection was lost. (To 6.4 what ends a
  // transaction is no sql_error, to 7 it is.)
  template <typename Work>
  static std::invoke_result_t<const Work&> translated(Remedy if_lost, const Work& work) {
    try {
      return work();
    } catch (const pqxx::serialization_failure& failure) {
      throw Collision("libpqxx: " + message_of(failure));
    } catch (const pqxx::deadlock_detected& failure) {
      throw Collision("libpqxx: " + message_of(failure));
    } catch (const pqxx::statement_completion_unknown& failure) {
      throw Error(Remedy::unknown, "libpqxx: " + message_of(failure));
    } catch (const pqxx::transaction_rollback& failure) {
      throw Error(Remedy::retry, "libpqxx: " + message_of(failure));
    } catch (const pqxx::sql_error& refusal) {
      throw_refusal("libpqxx", refusal.sqlstate(), message_of(refusal));
    } catch (const pqxx::in_doubt_error& failure) {
      throw Error(Remedy::unknown, "libpqxx: " + message_of(failure));
    } catch (const pqxx::failure& failure) {
      throw Error(if_lost, "libpqxx: " + message_of(failure));
    } catch (const std::logic_error& misuse) {
      throw Error(Remedy::fix_input, "libpqxx: " + message_of(misuse));
    }
  }

 private:
  // The first line, without its "ERROR:  ". The others are details, and would show the row.
  static std::string message_of(const std::exception& failure) {
    std::string_view message = failure.what();
    message = message.substr(0, message.find('\n'));
    const auto severity = message.find(":  ");
    if (severity != std::string_view::npos) message.remove_prefix(severity + 3);
    return std::string(message);
  }

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

// A connection without a transaction of libpqxx's: ours are begun and ended by statements. What a statement of the
// caller's own has begun or ended is not noticed: libpqxx does not tell.
class PqxxConnection final : public PqxxAdapter {
 public:
  explicit PqxxConnection(pqxx::connection& connection) : connection_(connection) {}

  Rows execute(std::string_view sql, std::span<const Parameter> parameters) override {
    return directly([&](pqxx::transaction_base& direct) { return execute_in(direct, sql, parameters); });
  }
  void script(const std::string& sql) override {
    directly([&](pqxx::transaction_base& direct) { direct.exec(sql); });
  }
  bool in_transaction() const override { return state_ != State::none; }
  bool usable() const override { return connection_.is_open(); }

  void begin(const std::string& sql) override {
    script(sql);
    state_ = State::open;
  }
  void rollback() override {
    if (std::exchange(state_, State::none) == State::open) script("ROLLBACK");
  }
  // A lost answer is not found out: Error(unknown).
  void commit() override {
    if (state_ == State::none) throw Error(Remedy::fix_input, "libpqxx: there is no transaction to be committed");
    // The server takes the COMMIT of a failed transaction for a ROLLBACK, which is no error to it. To ask is one.
    try {
      execute("SELECT 1", {});
    } catch (const Error&) {
      abandon();
      throw;
    }
    try {
      script("COMMIT");
      state_ = State::none;
    } catch (const Error& error) {
      const bool lost = std::exchange(state_, State::none) == State::lost;
      if (!lost) throw;
      throw Error(Remedy::unknown,
                  std::string(error.what()) + ": the connection was lost during COMMIT; it may have taken effect");
    }
  }

 private:
  // libpqxx opens a lost connection again by itself, and would go on without the transaction that was lost with it.
  enum class State { none, open, lost };

  void abandon() noexcept {
    try {
      rollback();
    } catch (const Error&) {
      // Lost with its connection.
    }
  }

  template <typename Work>
  std::invoke_result_t<const Work&, pqxx::transaction_base&> directly(const Work& work) {
    if (state_ == State::open && !usable()) state_ = State::lost;
    if (state_ == State::lost)
      throw Error(Remedy::retry, "libpqxx: the connection was lost, and the transaction with it");
    const Remedy if_lost = state_ == State::none && usable() ? Remedy::unknown : Remedy::retry;
    try {
      return translated(if_lost, [&] {
        pqxx::nontransaction direct(connection_);
        return work(direct);
      });
    } catch (const Error&) {
      if (!usable() && state_ == State::open) state_ = State::lost;
      throw;
    }
  }

  pqxx::connection& connection_;
  State state_ = State::none;
};

// A transaction that libpqxx has begun and that its owner ends.
class PqxxTransaction final : public PqxxAdapter {
 public:
  explicit PqxxTransaction(pqxx::transaction_base& transaction) : transaction_(transaction) {}

  Rows execute(std::string_view sql, std::span<const Parameter> parameters) override {
    return translated(Remedy::retry, [&] { return execute_in(transaction_, sql, parameters); });
  }
  void script(const std::string& sql) override {
    translated(Remedy::retry, [&] { transaction_.exec(sql); });
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
// Which is none: lend its connection.
std::unique_ptr<Connection> borrow(pqxx::nontransaction& transaction) = delete;

}  // namespace waybill
