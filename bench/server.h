#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "support/tmp_postgres.h"

struct pg_conn;

namespace waybill::bench {

// A connection of the bench's own. Every failure is an exception: a figure from a broken run is worth nothing.
class Connection {
 public:
  explicit Connection(const std::string& url);

  using Rows = std::vector<std::vector<std::string>>;  // Null is "".
  Rows query(const std::string& sql);
  double number(const std::string& sql);

  using Parameters = std::vector<std::optional<std::string>>;
  void prepare(const std::string& name, const std::string& sql);
  Rows run(const std::string& name, const Parameters& parameters);
  // Without having been prepared.
  Rows run_once(const std::string& sql, const Parameters& parameters);

  // Reads everything that a COPY … TO STDOUT sends, and drops it; how many rows there were.
  long copy_out(const std::string& sql);
  // Sends `data` to a COPY … FROM STDIN.
  void copy_in(const std::string& sql, std::string_view data);

 private:
  std::shared_ptr<pg_conn> connection_;
};

// What the processor has spent on a process so far, in seconds, all threads of it.
double cpu_seconds(pid_t process);
double own_cpu_seconds();
double rss_mib(pid_t process);

// The PostgreSQL server of a run: as installed, but for room for a backlog in memory and few checkpoints.
class Server {
 public:
  explicit Server(std::vector<std::string> settings = {});

  // A new database with Waybill's tables; its URL.
  std::string migrated_database(int shards = 16);
  void drop(const std::string& url);
  // What the processor has spent on all processes of the server so far, in seconds.
  double cpu() const;

 private:
  TmpPostgres postgres_;
  pid_t postmaster_ = 0;
};

}  // namespace waybill::bench
