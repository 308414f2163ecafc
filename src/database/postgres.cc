#include <charconv>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <libpq-fe.h>

#include "waybill/database.h"
#include "waybill/error.h"

#include "database/connections.h"
#include "database/database_error.h"
#include "database/postgres_fate.h"
#include "database/postgres_open.h"
#include "database/replication_watch.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

using Result = std::unique_ptr<PGresult, decltype(&PQclear)>;

// How long we try to find out what became of a transaction.
constexpr auto patience = 10s;
// How long the server's run is taken for what it was: behind a pooler, a connection outlives a crash of the server.
constexpr auto run_holds = 1min;

bool succeeded(const Result& result) {
  const ExecStatusType status = PQresultStatus(result.get());
  return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY;
}

bool is_commit(const Result& result) {
  return result && std::string_view(PQcmdStatus(result.get())) == "COMMIT";
}

// Or goes back to a savepoint; or has begun another, AND CHAIN.
bool ends_transaction(const Result& result) {
  const std::string_view command = PQcmdStatus(result.get());
  return command == "COMMIT" || command == "ROLLBACK";
}

std::string value_of(const Result& result, int column) {
  return PQntuples(result.get()) == 1 ? PQgetvalue(result.get(), 0, column) : "";
}

Rows rows_of(const Result& result) {
  const int columns = PQnfields(result.get());
  std::vector<std::optional<std::string>> values;
  values.reserve(static_cast<std::size_t>(columns) * static_cast<std::size_t>(PQntuples(result.get())));
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    for (int column = 0; column < columns; ++column) {
      if (PQgetisnull(result.get(), row, column)) {
        values.emplace_back();
      } else {
        values.emplace_back(std::in_place, PQgetvalue(result.get(), row, column),
                            static_cast<std::size_t>(PQgetlength(result.get(), row, column)));
      }
    }
  }
  const std::string_view count = PQcmdTuples(result.get());
  std::int64_t affected = 0;
  std::from_chars(count.data(), count.data() + count.size(), affected);
  return {static_cast<std::size_t>(columns), std::move(values), affected};
}

constexpr std::string_view number_sql = "SELECT pg_catalog.pg_current_xact_id_if_assigned()";

class PostgresConnection final : public Connection {
 public:
  explicit PostgresConnection(PGconn* borrowed) : raw_(borrowed) {}
  explicit PostgresConnection(std::string url)
      : url_(std::move(url)), own_(open_postgres(url_, "waybill library")), raw_(own_.get()) {
    watch_.emplace(raw_);
  }

  Dialect dialect() const override { return Dialect::postgresql; }
  bool in_transaction() const override {
    const PGTransactionStatusType status = PQtransactionStatus(raw_);
    return status == PQTRANS_INTRANS || status == PQTRANS_INERROR;
  }
  bool usable() const override { return PQstatus(raw_) == CONNECTION_OK; }

  void reopen() override {
    if (url_.empty())
      throw Error(Remedy::retry, "postgresql: the connection is lost; whoever has lent it must open it again");
    own_.reset();
    raw_ = nullptr;
    own_ = open_postgres(url_, "waybill library");
    raw_ = own_.get();
    watch_.emplace(raw_);
    run_.clear();
    parsed_.clear();
  }

  Rows execute(std::string_view sql, std::span<const Parameter> parameters) override {
    std::vector<const char*> values;
    std::vector<int> lengths;
    std::vector<int> formats;
    for (const Parameter& parameter : parameters) {
      if (parameter.value && !parameter.bytes && parameter.value->find('\0') != std::string::npos)
        throw Error(Remedy::fix_input, "postgresql: a text has a NUL in it, which the server cannot hold");
      values.push_back(parameter.value ? parameter.value->c_str() : nullptr);
      lengths.push_back(parameter.value ? static_cast<int>(parameter.value->size()) : 0);
      formats.push_back(parameter.bytes ? 1 : 0);
    }
    const bool by_itself = runs_by_itself();
    if (by_itself) transaction_.clear();
    std::string text = std::exchange(parsed_, {});
    const bool again = !text.empty() && text == sql;
    if (!again) text = sql;
    const int count = static_cast<int>(values.size());
    const Result result = checked(
        again ? PQexecPrepared(raw_, "", count, values.data(), lengths.data(), formats.data(), 0)
              : PQexecParams(raw_, text.c_str(), count, nullptr, values.data(), lengths.data(), formats.data(), 0),
        by_itself);
    if (ends_transaction(result)) {
      transaction_.clear();
    } else if (own_ && !by_itself) {
      parsed_ = std::move(text);
    }
    return rows_of(result);
  }

  void script(const std::string& sql) override {
    transaction_.clear();  // It may end the transaction, and begin another.
    parsed_.clear();
    const bool by_itself = runs_by_itself();
    checked(PQexec(raw_, sql.c_str()), by_itself);
  }

  void commit() override {
    parsed_.clear();
    const PGTransactionStatusType status = PQtransactionStatus(raw_);
    if (!usable())
      throw Error(Remedy::retry, "postgresql: the connection was lost before COMMIT: nothing was committed");
    if (status == PQTRANS_IDLE) throw Error(Remedy::fix_input, "postgresql: there is no transaction to be committed");
    const End end = status == PQTRANS_INERROR ? End{} : end_transaction();
    if (is_commit(end.answer)) return check_replicated();
    if (!usable()) return find_out(end);
    if (end.answer && !succeeded(end.answer)) fail(end.answer.get());
    // The server takes the COMMIT of a failed transaction for a ROLLBACK, which is no error to it.
    PQclear(PQexec(raw_, "ROLLBACK"));
    throw Error(Remedy::fix_input,
                "postgresql: a statement of the transaction has failed: it was rolled back, nothing was written");
  }

 private:
  // Only where the connection is our own: the notices of one that was lent are the lender's.
  void check_replicated() {
    if (watch_ && watch_->missed())
      throw Error(
          Remedy::unknown,
          "postgresql: the transaction is committed on this server only: the wait for its synchronous standby was "
          "cancelled, and a fail-over would undo it");
  }

  // What is known about the end of a transaction.
  struct End {
    Result answer{nullptr, &PQclear};     // to COMMIT; nothing if there was none
    std::optional<std::string> number{};  // Of the transaction; empty: it has none, having written nothing.
  };

  // If its answer is lost it may have taken effect. Through a connection that is lost already nothing is sent.
  bool runs_by_itself() const { return usable() && !in_transaction(); }

  Result checked(PGresult* raw_result, bool by_itself) const {
    Result result(raw_result, &PQclear);
    if (succeeded(result)) return result;
    if (by_itself && !usable() && !PQresultErrorField(result.get(), PG_DIAG_SQLSTATE))
      throw Error(Remedy::unknown,
                  fmt::format("postgresql: {}: the statement may have taken effect", one_line(PQerrorMessage(raw_))));
    fail(result.get());
  }

  [[noreturn]] void fail(const PGresult* result) const {
    const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const Error error = postgres_error("postgresql", raw_, result);
    if (state && is_collision(state)) throw Collision(error.what());
    throw error;
  }

  End end_transaction() {
    End end{.number = transaction_.empty() ? std::nullopt : std::optional(std::exchange(transaction_, {}))};
    if (end.number && !run_.empty() && std::chrono::steady_clock::now() - run_learnt_ < run_holds) {
      end.answer.reset(PQexec(raw_, "COMMIT"));
    } else {
      ask_and_commit(end);
    }
    return end;
  }

  // In one round trip, but not one piece: the number is on its way back while the server waits for its disk.
  void ask_and_commit(End& end) {
    const std::string ask = fmt::format("{}, {}", number_sql, run_sql(PQserverVersion(raw_)));
    bool sent = PQenterPipelineMode(raw_) == 1;
    for (const char* sql : {ask.c_str(), "COMMIT"})
      sent = sent && PQsendQueryParams(raw_, sql, 0, nullptr, nullptr, nullptr, nullptr, 0) == 1 &&
             PQpipelineSync(raw_) == 1;
    bool asked = false;
    for (int answered = 0; sent && answered < 2 && usable();) {
      Result result(PQgetResult(raw_), &PQclear);
      if (PQresultStatus(result.get()) == PGRES_PIPELINE_SYNC) {
        ++answered;
      } else if (result && !std::exchange(asked, true) && succeeded(result)) {
        end.number = value_of(result, 0);
        run_ = value_of(result, 1);
        run_learnt_ = std::chrono::steady_clock::now();
      } else if (result) {
        end.answer = std::move(result);
      }
    }
    if (usable()) PQexitPipelineMode(raw_);
  }

  // The answer is lost. The server knows.
  void find_out(const End& end) const {
    const std::string lost = "postgresql: the connection was lost during COMMIT";
    if (!end.number || run_.empty()) throw Error(Remedy::unknown, lost + "; it may have taken effect");
    if (end.number->empty())
      throw Error(Remedy::unknown, lost +
                                       "; the transaction has written nothing here, but what it does at its end, such "
                                       "as NOTIFY, may have taken effect");
    switch (fate_of(*end.number, run_, raw_, std::chrono::steady_clock::now() + patience)) {
      case Fate::committed:
        return;
      case Fate::rolled_back:
        throw Error(Remedy::retry, lost + ", and the transaction was rolled back");
      case Fate::forgotten:
        throw Error(Remedy::unknown,
                    lost + ", and the server cannot tell what became of the transaction; it may have taken effect");
      case Fate::unheard:
        throw Error(Remedy::unknown, lost + ", and the server does not answer; it may have taken effect");
    }
  }

  const std::string url_;  // Empty: it was lent.
  PgHandle own_;
  PGconn* raw_;
  std::optional<ReplicationWatch> watch_;
  // The statement of this transaction that the server knows without a name, being the last: it need not be told again.
  // Only on a connection of our own: through one that was lent others may have been sent since.
  std::string parsed_;
  std::string run_;  // of the server, as soon as it is known
  std::chrono::steady_clock::time_point run_learnt_{};
};

}  // namespace

std::unique_ptr<Connection> borrow(pg_conn* connection) {
  return std::make_unique<PostgresConnection>(connection);
}

std::unique_ptr<Connection> connect_postgres(const std::string& url) {
  return std::make_unique<PostgresConnection>(url);
}

}  // namespace waybill
