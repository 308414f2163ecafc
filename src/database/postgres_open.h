#pragma once

#include <chrono>
#include <memory>
#include <string>

struct pg_conn;  // libpq's PGconn

namespace waybill {

struct PgFinish {
  void operator()(pg_conn* connection) const;
};
using PgHandle = std::unique_ptr<pg_conn, PgFinish>;

// Connects; throws Error: `retry` if the server is away, `fix_config` if it turns us down or is too old. The URL's own
// parameters win over ours, which notice a server that is gone within some ten seconds.
PgHandle open_postgres(const std::string& url, const std::string& application_name);
// One more connection to where `other` goes to, whether or not that lives. Throws Error(retry) if it takes too long.
PgHandle open_beside(pg_conn* other, std::chrono::steady_clock::time_point deadline);

// Waits until its socket can be read (POLLIN) or written (POLLOUT). False: not in time.
bool wait_for(pg_conn* connection, short events, std::chrono::steady_clock::time_point deadline);

// For messages: host, database and user of a URL, without its password.
std::string describe_postgres(const std::string& url);

}  // namespace waybill
