#pragma once

#include <memory>
#include <string>

#include "support/child_process.h"

namespace waybill {

// A PgBouncer in transaction mode before a server on `server_port`, with a few connections to it only (for each
// database), as `user`.
class TmpPgBouncer {
 public:
  explicit TmpPgBouncer(int server_port, const std::string& user = "postgres", int connections = 3);

  std::string url(const std::string& database) const;

 private:
  TmpFolder folder_;
  int port_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace waybill
