#include "database/postgres_fate.h"

#include <array>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include "waybill/error.h"

#include "database/postgres_open.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using Deadline = std::chrono::steady_clock::time_point;

// What it answered; nothing if it did not.
std::string ask(PGconn* server, const std::string& number, const std::string& run, Deadline deadline) {
  const std::string sql = fate_sql(PQserverVersion(server));
  const std::array<const char*, 2> values{number.c_str(), run.c_str()};
  if (PQsendQueryParams(server, sql.c_str(), 2, nullptr, values.data(), nullptr, nullptr, 0) != 1) return "";
  std::string answer;
  while (true) {
    while (PQisBusy(server) == 1)
      if (!wait_for(server, POLLIN, deadline) || PQconsumeInput(server) != 1) return "";
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(server), &PQclear);
    if (!result) return PQstatus(server) == CONNECTION_OK ? answer : "";
    // A number that was never given out is an error.
    answer = PQntuples(result.get()) == 1 ? PQgetvalue(result.get(), 0, 0) : "lost";
  }
}

}  // namespace

std::string run_sql(int server_version) {
  std::string started = "pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())::text";
  if (server_version < 150000) return started;
  return fmt::format(
      "pg_catalog.concat({}, '/', pg_catalog.date_part('epoch', pg_catalog.pg_stat_get_bgwriter_stat_reset_time()))",
      started);
}

std::string fate_sql(int server_version) {
  const std::string status = "pg_catalog.pg_xact_status($1::pg_catalog.xid8)";
  return fmt::format("SELECT CASE WHEN {} = $2 THEN coalesce({}, 'lost') ELSE 'lost' END", run_sql(server_version),
                     server_version < 150000 ? fmt::format("nullif({}, 'committed')", status) : status);
}

Fate fate_of(const std::string& number, const std::string& run, pg_conn* lost, Deadline deadline) {
  constexpr auto pause = 50ms;
  PgHandle server;
  while (std::chrono::steady_clock::now() < deadline) {
    try {
      if (!server || PQstatus(server.get()) != CONNECTION_OK) server = open_beside(lost, deadline);
      const std::string answer = ask(server.get(), number, run, deadline);
      if (answer == "committed") return Fate::committed;
      if (answer == "aborted") return Fate::rolled_back;
      if (answer == "lost") return Fate::forgotten;
    } catch (const Error&) {
      server.reset();
    }
    std::this_thread::sleep_for(pause);
  }
  return Fate::unheard;
}

}  // namespace waybill
