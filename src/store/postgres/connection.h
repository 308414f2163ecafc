#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

#include "waybill/time.h"

#include "database/postgres_open.h"

namespace waybill {

// A statement by name: prepared once on each connection, so that it is planned once.
struct PgQuery {
  std::string name;
  std::string sql;
};

// Parameters as text; none is NULL.
using PgParameters = std::vector<std::optional<std::string>>;

struct PgStatement {
  const PgQuery* query = nullptr;
  PgParameters parameters{};
};

// The rows a statement returned, in binary form.
class PgRows {
 public:
  explicit PgRows(PGresult* result) : result_(result, &PQclear) {}

  int size() const { return PQntuples(result_.get()); }
  bool null(int row, int column) const { return PQgetisnull(result_.get(), row, column) != 0; }
  std::string_view text(int row, int column) const {
    return {PQgetvalue(result_.get(), row, column), static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
  }
  std::int64_t integer(int row, int column) const;  // of 2, 4 or 8 bytes
  bool boolean(int row, int column) const { return *PQgetvalue(result_.get(), row, column) != 0; }
  Time time(int row, int column) const;
  // Rows that an INSERT, UPDATE or DELETE has touched.
  std::int64_t affected() const;
  // Keeps the rows, and with them every text() of theirs.
  std::shared_ptr<PGresult> memory() const { return result_; }

 private:
  std::shared_ptr<PGresult> result_;
};

// Elements of a PostgreSQL array, as text.
template <typename Number>
std::string pg_array(std::span<const Number> numbers) {
  std::string text = "{";
  for (const Number number : numbers) {
    if (text.size() > 1) text += ',';
    text += std::to_string(number);
  }
  return text + '}';
}
std::string pg_array(std::span<const std::optional<std::string>> texts);
std::string pg_array(std::span<const std::string> texts);

// A connection to the database. Used by one thread. After an Error(retry) or (unknown) it is to be thrown
// away.
class PgConnection {
 public:
  // Connects; throws Error: `retry` if the server is away, `fix_config` if it turns us down.
  PgConnection(const std::string& url, const std::string& purpose);

  // One statement in a transaction of its own.
  PgRows run(const PgStatement& statement);
  // Several statements in a transaction of their own and one round trip, under the session's settings.
  std::vector<PgRows> run(std::span<const PgStatement> statements);
  // A script of several statements without parameters, in one transaction.
  void script(const std::string& sql);

  // Ends the transaction that script() has begun. Throws Error(fix_input) if one of its statements has failed, and
  // (unknown) if the connection was lost meanwhile.
  void commit();

  // Several statements in one transaction and one round trip, with settings under which our queries keep
  // their plans and a commit reaches the disk. Returns one result each.
  std::vector<PgRows> transact(std::span<const PgStatement> statements);
  // The same in two halves: the server works while we do something else.
  void send(std::span<const PgStatement> statements);
  std::vector<PgRows> receive();

  // Is there a pooler between the server and us? Then nothing may rest in the session.
  bool pooled() const { return pooled_; }
  bool alive() const { return PQstatus(connection_.get()) == CONNECTION_OK; }
  int server_version() const { return PQserverVersion(connection_.get()); }

  // For LISTEN: to wait on, and the channels told of since the last call.
  int socket() const { return PQsocket(connection_.get()); }
  std::vector<std::string> notifications();

  PGconn* raw() const { return connection_.get(); }

 private:
  void queue(const PgQuery& query, const PgParameters& parameters);
  std::vector<PgRows> receive_results(std::size_t skip_front, std::size_t skip_back);
  [[noreturn]] void fail(const PGresult* result) const;
  [[noreturn]] void fail_connection() const;
  void roll_back();

  PgHandle connection_;
  std::set<std::string> prepared_;
  std::vector<bool> queued_;  // in the pipeline, in order: true for what has a result to return, false for a PREPARE
  bool pooled_ = false;
};

}  // namespace waybill
