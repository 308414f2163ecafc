#include "store/postgres/connection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/assert.h"
#include "database/database_error.h"
#include "database/sql_text.h"

namespace waybill {
namespace {

// 2000-01-01, where PostgreSQL's time begins.
constexpr Time postgres_epoch = std::chrono::sys_days(std::chrono::year(2000) / 1 / 1);
// What lies beyond, up to infinity, is as good as these, and does not overflow.
constexpr Time earliest = std::chrono::sys_days(std::chrono::year(1) / 1 / 1);
constexpr Time latest = std::chrono::sys_days(std::chrono::year(9999) / 12 / 31);

template <typename Integer>
Integer big_endian(const char* bytes) {
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value = static_cast<Integer>(value << 8U | static_cast<unsigned char>(bytes[i]));
  return value;
}

bool is_commit(const PgRows& result) {
  return std::string_view(PQcmdStatus(result.memory().get())) == "COMMIT";
}

// For want of rights. What a function of ours raises under the same code says by itself what to do.
bool is_denial(const PGresult* result) {
  const char* raised_by = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);
  return std::string_view(PQresultErrorField(result, PG_DIAG_SQLSTATE)) == "42501" &&
         (!raised_by || std::string_view(raised_by) != "exec_stmt_raise");
}

const PgQuery begin_statement{"begin", "BEGIN ISOLATION LEVEL READ COMMITTED"};
const PgQuery commit_statement{"commit", "COMMIT"};
// By SET LOCAL in effect: a pooler hands the session to others after the transaction. A relay that is stopped
// in the middle of a transaction must not hold its locks for ever.
const PgQuery settings{
    "settings",
    "SELECT set_config('synchronous_commit', 'on', true), set_config('enable_seqscan', 'off', true), "
    "set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true), "
    "set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), "
    "set_config('jit', 'off', true), set_config('max_parallel_workers_per_gather', '0', true), "
    "set_config('plan_cache_mode', 'force_generic_plan', true), "
    "set_config('idle_in_transaction_session_timeout', '3s', true), set_config('lock_timeout', '5s', true)"};

// Settings that a role, a database or an application behind the same pooler may have changed. search_path: a user who
// can create functions in a schema on it could have them run with our rights. client_min_messages: see
// ReplicationWatch.
std::vector<std::pair<std::string, std::string>> pinned_settings(std::chrono::milliseconds statement_max,
                                                                 int server_version) {
  std::vector<std::pair<std::string, std::string>> pinned{{"search_path", "pg_catalog, pg_temp"},
                                                          {"statement_timeout", std::to_string(statement_max.count())},
                                                          {"lock_timeout", "5000"},
                                                          {"idle_in_transaction_session_timeout", "0"},
                                                          {"client_min_messages", "warning"}};
  if (server_version >= 170000) pinned.emplace_back("transaction_timeout", "0");
  return pinned;
}

}  // namespace

std::int64_t PgRows::integer(int row, int column) const {
  const char* bytes = PQgetvalue(result_.get(), row, column);
  switch (PQgetlength(result_.get(), row, column)) {
    case 2:
      return static_cast<std::int16_t>(big_endian<std::uint16_t>(bytes));
    case 4:
      return static_cast<std::int32_t>(big_endian<std::uint32_t>(bytes));
    default:
      return static_cast<std::int64_t>(big_endian<std::uint64_t>(bytes));
  }
}

Time PgRows::time(int row, int column) const {
  const std::chrono::microseconds since(integer(row, column));
  return postgres_epoch + std::clamp(since, std::chrono::microseconds(earliest - postgres_epoch),
                                     std::chrono::microseconds(latest - postgres_epoch));
}

std::int64_t PgRows::affected() const {
  const std::string_view text = PQcmdTuples(result_.get());
  std::int64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

std::string pg_array(std::span<const std::optional<std::string>> texts) {
  std::string out = "{";
  for (const auto& text : texts) append_element(out, text);
  return out + '}';
}

std::string pg_array(std::span<const std::string> texts) {
  std::string out = "{";
  for (const auto& text : texts) append_element(out, text);
  return out + '}';
}

PgConnection::PgConnection(const std::string& url, const std::string& purpose, std::chrono::milliseconds statement_max)
    : connection_(open_postgres(url, "waybill " + purpose)),
      replication_(std::make_unique<ReplicationWatch>(connection_.get())) {
  const PgRows server(PQexec(raw(), "SELECT pg_backend_pid(), current_setting('server_encoding'), current_database()"));
  if (PQresultStatus(server.memory().get()) != PGRES_TUPLES_OK) fail(server.memory().get());
  // A pooler tells its client a process number of its own making.
  pooled_ = server.text(0, 0) != std::to_string(PQbackendPID(raw()));
  if (server.text(0, 1) != "UTF8")
    throw Error(
        Remedy::fix_config,
        fmt::format("postgresql: database '{}' has the encoding {}, which cannot hold all that destinations and "
                    "events say; make it anew with ENCODING 'UTF8'",
                    server.text(0, 2), server.text(0, 1)));
  set_session(statement_max);
}

// Behind a pooler a session is everybody's: there the settings go into each transaction.
void PgConnection::set_session(std::chrono::milliseconds statement_max) {
  std::string session;
  for (const auto& [name, value] : pinned_settings(statement_max, server_version())) {
    pin_.sql += fmt::format("{}set_config('{}', '{}', true)", pin_.sql.empty() ? "SELECT " : ", ", name, value);
    session += fmt::format("SET {} = {};", name, name == "search_path" ? value : "'" + value + "'");
  }
  pin_.name = "pin";
  if (pooled_) return;
  session += "SET default_transaction_isolation = 'read committed';";
  if (server_version() >= 140000) session += "SET idle_session_timeout = 0;";
  script(session);
}

void PgConnection::fail_connection() const {
  throw Error(Remedy::retry, "postgresql: " + one_line(PQerrorMessage(raw())));
}

void PgConnection::fail(const PGresult* result) const {
  if (!PQresultErrorField(result, PG_DIAG_SQLSTATE)) fail_connection();
  if (way_out_of_denial_ && is_denial(result))
    throw Error(Remedy::fix_config,
                fmt::format("postgresql: {}; {}", one_line(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)),
                            way_out_of_denial_()));
  throw postgres_error("postgresql", raw(), result);
}

PgRows PgConnection::run(const PgStatement& statement) {
  return std::move(run(std::span(&statement, 1)).at(0));
}

std::vector<PgRows> PgConnection::run(std::span<const PgStatement> statements) {
  const bool framed = pooled_ && PQtransactionStatus(raw()) == PQTRANS_IDLE;
  if (framed) {
    queue_begin();
    queue_server_check();
  }
  for (const PgStatement& statement : statements) queue(*statement.query, statement.parameters);
  if (framed) queue_frame(commit_statement);
  if (PQpipelineSync(raw()) != 1) fail_connection();
  return receive_results();
}

void PgConnection::script(const std::string& sql) {
  const PgRows result(PQexec(raw(), sql.c_str()));
  const ExecStatusType status = PQresultStatus(result.memory().get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    try {
      fail(result.memory().get());
    } catch (const Error&) {
      roll_back();
      throw;
    }
  }
}

void PgConnection::begin(const std::string& settings) {
  std::string sql = begin_statement.sql + ";";
  if (pooled_) sql += pin_.sql + ";";
  script(sql + settings);
  if (!server_) return;
  queue_server_check();
  if (PQpipelineSync(raw()) != 1) fail_connection();
  receive_results();
}

// The server takes a COMMIT of a failed transaction for a ROLLBACK, and one without a transaction for nothing at all;
// neither is an error to it.
void PgConnection::commit() {
  const PGTransactionStatusType status = PQtransactionStatus(raw());
  if (status != PQTRANS_IDLE && status != PQTRANS_INERROR) {
    const PgRows result(PQexec(raw(), "COMMIT"));
    if (is_commit(result)) return check_replicated(Remedy::unknown);
    if (PQstatus(raw()) == CONNECTION_BAD)
      throw Error(Remedy::unknown, "postgresql: the connection was lost during COMMIT; it may have taken effect");
    if (PQresultStatus(result.memory().get()) != PGRES_COMMAND_OK) fail(result.memory().get());
  }
  roll_back();
  throw Error(Remedy::fix_input,
              "postgresql: a statement of the transaction has failed: it was rolled back, nothing was written");
}

void PgConnection::queue_frame(const PgQuery& query, const PgParameters& parameters) {
  queue(query, parameters);
  queued_.back() = Queued::frame;
}

void PgConnection::queue_begin() {
  queue_frame(begin_statement);
  if (pooled_) queue_frame(pin_);
}

// Also of two servers that both take themselves for the primary only the later one is used, once any connection of ours
// has found it.
void PgConnection::queue_server_check() {
  if (!server_) return;
  if (server_->newest_timeline->load() > server_->timeline)
    throw Error(Remedy::retry, fmt::format("postgresql: this server is on timeline {}, another one is on {} by now",
                                           server_->timeline, server_->newest_timeline->load()));
  queue_frame(server_->expect, {server_->token});
}

void PgConnection::queue(const PgQuery& query, const PgParameters& parameters) {
  if (PQpipelineStatus(raw()) == PQ_PIPELINE_OFF && PQenterPipelineMode(raw()) != 1) fail_connection();
  // Behind a pooler the next transaction may run on another server process: nothing can be prepared there.
  const std::string name = pooled_ ? "" : "waybill_" + query.name;
  if (name.empty() || !prepared_.contains(name)) {
    if (PQsendPrepare(raw(), name.c_str(), query.sql.c_str(), 0, nullptr) != 1) fail_connection();
    queued_.push_back(Queued::prepare);
    if (!name.empty()) prepared_.insert(name);
  }
  std::vector<const char*> values;
  std::vector<int> lengths;
  for (const auto& parameter : parameters) {
    values.push_back(parameter ? parameter->c_str() : nullptr);
    lengths.push_back(parameter ? static_cast<int>(parameter->size()) : 0);
  }
  constexpr int binary_result = 1;
  if (PQsendQueryPrepared(raw(), name.c_str(), static_cast<int>(values.size()), values.data(), lengths.data(), nullptr,
                          binary_result) != 1)
    fail_connection();
  queued_.push_back(Queued::statement);
}

std::vector<PgRows> PgConnection::transact(std::span<const PgStatement> statements) {
  send(statements);
  return receive();
}

void PgConnection::send(std::span<const PgStatement> statements) {
  queue_begin();
  queue_frame(settings);
  queue_server_check();
  for (const PgStatement& statement : statements) queue(*statement.query, statement.parameters);
  queue_frame(commit_statement);
  if (PQpipelineSync(raw()) != 1 || PQflush(raw()) < 0) fail_connection();
}

std::vector<PgRows> PgConnection::receive() {
  return receive_results();
}

std::vector<PgRows> PgConnection::receive_results() {
  std::vector<PgRows> results;
  std::optional<PgRows> failure;
  std::optional<PgRows> last;  // of the frame: COMMIT, if there is one
  for (const Queued queued : std::exchange(queued_, {})) {
    PgRows result(PQgetResult(raw()));
    const PGresult* raw_result = result.memory().get();
    if (!raw_result) fail_connection();
    const ExecStatusType status = PQresultStatus(raw_result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && !failure) failure = result;
    if (PGresult* end = PQgetResult(raw())) PQclear(end);  // Null: the end of this statement's results.
    if (queued == Queued::statement) results.push_back(result);
    last = queued == Queued::frame ? std::optional(result) : std::nullopt;
  }
  const PgRows sync(PQgetResult(raw()));
  if (failure) {
    prepared_.clear();  // What was queued behind the failure has not been prepared.
    const char* state = PQresultErrorField(failure->memory().get(), PG_DIAG_SQLSTATE);
    misled_ = misled_ || (state && std::string_view(state).starts_with("08"));
    if (PQexitPipelineMode(raw()) == 1) roll_back();
    fail(failure->memory().get());
  }
  if (!sync.memory() || PQresultStatus(sync.memory().get()) != PGRES_PIPELINE_SYNC || PQexitPipelineMode(raw()) != 1)
    fail_connection();
  if (last && PQtransactionStatus(raw()) == PQTRANS_IDLE && !is_commit(*last))
    throw Error(Remedy::retry, "postgresql: the server rolled a transaction back that was to be committed");
  check_replicated(Remedy::retry);
  return results;
}

void PgConnection::check_replicated(Remedy remedy) {
  if (replication_->missed())
    throw Error(
        remedy,
        "postgresql: a commit is on this server only: the wait for its synchronous standby was cancelled, and a "
        "fail-over would undo it. Nothing is sent on the strength of it; see pg_stat_replication");
}

void PgConnection::roll_back() {
  if (PQtransactionStatus(raw()) == PQTRANS_INERROR || PQtransactionStatus(raw()) == PQTRANS_INTRANS)
    PQclear(PQexec(raw(), "ROLLBACK"));
  if (!pooled_) PQclear(PQexec(raw(), "DEALLOCATE ALL"));
}

std::vector<std::string> PgConnection::notifications() {
  if (PQconsumeInput(raw()) != 1) fail_connection();
  std::vector<std::string> channels;
  while (PGnotify* notification = PQnotifies(raw())) {
    channels.emplace_back(notification->relname);
    PQfreemem(notification);
  }
  return channels;
}

// What holds in the end: sslmode may come from the URL, the environment or a service file.
PgEncryption PgConnection::encryption() const {
  PGconn* const connection = connection_.get();
  const auto text = [](const char* found) { return std::string(found ? found : ""); };
  PgEncryption encryption{.host = text(PQhost(connection)),
                          .address = text(PQhostaddr(connection)),
                          .encrypted = PQsslInUse(connection) != 0 || PQgssEncInUse(connection) != 0};
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(PQconninfo(connection), &PQconninfoFree);
  for (const PQconninfoOption* option = options.get(); option && option->keyword; ++option)
    if (std::string_view(option->keyword) == "sslmode") encryption.sslmode = text(option->val);
  return encryption;
}

}  // namespace waybill
