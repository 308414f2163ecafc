#pragma once

#include <chrono>
#include <string>

struct pg_conn;  // libpq's PGconn

// What became of a transaction whose COMMIT was not answered.
namespace waybill {

enum class Fate {
  committed,
  rolled_back,
  forgotten,  // The server cannot tell.
  unheard,    // It did not answer in time, or was still at it.
};

// An SQL expression: which run of which server this is. After a crash transaction numbers that never reached the disk
// are given out again, and on another server they mean something else: what a number's transaction became is to be
// believed only from the same run. A server's run ends when it is started anew, or crashes: that resets its statistics.
// (Before 15 it takes a while to ask for them: see fate_sql().)
std::string run_sql(int server_version);

// Asks what became of transaction $1, begun in run $2: "committed", "aborted", "in progress", or "lost". Before 15
// "committed" is "lost", too: the server may have recovered from a crash without being started anew, and the number may
// be another's now. ("aborted" is true even then: a number that reached the disk with its COMMIT is not given out
// again.)
std::string fate_sql(int server_version);

// Asks on new connections to where `lost` went.
Fate fate_of(const std::string& number, const std::string& run, pg_conn* lost,
             std::chrono::steady_clock::time_point deadline);

}  // namespace waybill
