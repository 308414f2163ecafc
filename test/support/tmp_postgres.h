#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/child_process.h"

namespace waybill {

// A PostgreSQL server of a test's own, on a free port, in a temporary folder.
class TmpPostgres {
 public:
  // `durable`: with fsync, for tests that crash it.
  explicit TmpPostgres(bool durable = false, std::vector<std::string> settings = {});
  // A copy of another one's files as they are now: a standby that follows it, or a backup. start() it.
  struct Standby {
    const TmpPostgres& of;
  };
  struct Backup {
    const TmpPostgres& of;
  };
  // A new server that has taken over another one's databases by pg_upgrade. The other is stopped; start() it.
  struct Upgrade {
    TmpPostgres& of;
  };
  explicit TmpPostgres(Standby standby);
  explicit TmpPostgres(Backup backup);
  explicit TmpPostgres(Upgrade upgrade);
  ~TmpPostgres();

  // Where a program that comes with the server is.
  static std::string program(const std::string& name);

  // One for the whole test binary, for tests that do not hurt it.
  static TmpPostgres& shared();

  // A new, empty database; its URL.
  std::string fresh_database();
  std::string url(const std::string& database, const std::string& user = "postgres") const;
  int port() const { return port_; }

  // As a power cut would: the server and all its children are killed at once.
  void crash();
  // From here on nothing is written to the log of the server but what a commit waits for: asynchronous commits stay
  // in memory, to be lost by a crash(). Until the next start().
  void stop_wal_writer();
  void start();
  // A clean, fast end, and start.
  void stop();
  void restart();

 private:
  void init();
  void copy(const TmpPostgres& other, const std::string& as);

  const bool durable_;
  const std::vector<std::string> settings_;
  TmpFolder folder_;
  int port_;
  std::unique_ptr<ChildProcess> server_;
  int databases_ = 0;
};

}  // namespace waybill
