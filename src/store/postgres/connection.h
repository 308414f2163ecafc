#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <libpq-fe.h>

#include "waybill/error.h"
#include "waybill/time.h"

#include "database/postgres_open.h"
#include "database/replication_watch.h"
#include "store/postgres/encryption.h"

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

// The server that a connection was opened to. Behind a pooler each transaction may run on another server, and what was
// read from one means nothing on the next: so every transaction asks for its server before it does anything else, and
// fails if it is not this one.
struct PgServer {
  PgQuery expect;                                     // Fails, with Error(retry), unless it runs on this server.
  std::string token{};                                // Which server that is, for `expect`.
  int timeline = 0;                                   // Its own,
  const std::atomic<int>* newest_timeline = nullptr;  // and the latest that any connection of the store has found.
};

// How long one statement may take. The settings of a role or a database do not apply to our connections.
inline constexpr std::chrono::milliseconds pg_statement_max{60'000};
inline constexpr std::chrono::milliseconds pg_no_limit{0};

// A connection to the database. Used by one thread. After an Error(retry) or (unknown) it is to be thrown
// away. It sets what it depends on itself (search_path, timeouts, isolation): once on a connection of its own, in every
// transaction behind a pooler. A database that is read-only by default is left alone: somebody has frozen it.
// A commit that the server has not passed on to its synchronous standby, because somebody cancelled the wait, counts as
// failed: Error(retry), or (unknown) from commit().
class PgConnection {
 public:
  // Connects; throws Error: `retry` if the server is away, `fix_config` if it turns us down.
  PgConnection(const std::string& url, const std::string& purpose,
               std::chrono::milliseconds statement_max = pg_statement_max);

  // From here on no transaction but of this server's.
  void stay_on(PgServer server) { server_ = std::move(server); }

  // What to add to an error of the server's that is for want of rights (42501). See way_to_right().
  void on_denied(std::function<std::string()> way_out) { way_out_of_denial_ = std::move(way_out); }

  // One statement in a transaction of its own.
  PgRows run(const PgStatement& statement);
  // Several statements in a transaction of their own and one round trip, under the session's settings.
  std::vector<PgRows> run(std::span<const PgStatement> statements);
  // A script of several statements without parameters, in one transaction.
  void script(const std::string& sql);

  // Begins a transaction that run() and script() are then part of. `settings`: SET LOCAL … for it, each with a ';'.
  void begin(const std::string& settings);
  // Ends the transaction that begin() has begun. Throws Error(fix_input) if one of its statements has failed, and
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
  // And does it still lead to the server of stay_on()?
  bool alive() const { return !misled_ && PQstatus(connection_.get()) == CONNECTION_OK; }
  PgEncryption encryption() const;
  int server_version() const { return PQserverVersion(connection_.get()); }

  // For LISTEN: to wait on, and the channels told of since the last call.
  int socket() const { return PQsocket(connection_.get()); }
  std::vector<std::string> notifications();

  PGconn* raw() const { return connection_.get(); }

 private:
  void set_session(std::chrono::milliseconds statement_max);
  void queue(const PgQuery& query, const PgParameters& parameters);
  void queue_frame(const PgQuery& query, const PgParameters& parameters = {});
  void queue_begin();
  void queue_server_check();
  std::vector<PgRows> receive_results();
  void check_replicated(Remedy remedy);
  [[noreturn]] void fail(const PGresult* result) const;
  [[noreturn]] void fail_connection() const;
  void roll_back();

  PgHandle connection_;
  std::function<std::string()> way_out_of_denial_;
  std::set<std::string> prepared_;
  enum class Queued { prepare, frame, statement };  // frame: BEGIN, settings, COMMIT
  std::vector<Queued> queued_;                      // in the pipeline, in order
  std::optional<PgServer> server_;
  PgQuery pin_;  // The settings of a session that is not ours, for one transaction.
  std::unique_ptr<ReplicationWatch> replication_;
  bool pooled_ = false;
  bool misled_ = false;  // It led to another server.
};

}  // namespace waybill
