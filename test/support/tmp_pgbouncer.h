#pragma once

#include <memory>
#include <string>

#include "support/child_process.h"

namespace waybill {

// A PgBouncer in transaction mode before a server on `server_port`, with a few connections to it only (for each
// database), as `user`; for one database, or all of them.
class TmpPgBouncer {
 public:
  explicit TmpPgBouncer(int server_port, const std::string& user = "postgres", int connections = 3,
                        const std::string& database = "*");

  std::string url(const std::string& database) const;

  // From here on it leads to another server; transactions under way end on the old one.
  // REQUIRES: it was made for one database.
  void point_to(int server_port);

 private:
  void configure(int server_port) const;

  const std::string user_;
  const int connections_;
  const std::string database_;
  TmpFolder folder_;
  int port_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace waybill
