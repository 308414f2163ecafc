#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server.h"
#include "support/child_process.h"

namespace waybill::bench {

// `waybill run` as a process of its own, with null destinations and the given lines of configuration.
class RelayProcess {
 public:
  RelayProcess(const std::string& waybill, const std::string& store, const std::vector<std::string>& destinations,
               const std::string& settings = "");

  // Asks it to end, and waits until it has.
  void stop();
  void kill();
  pid_t pid() const { return process_->pid(); }
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
  TmpFolder folder_;
  std::optional<ChildProcess> process_;
};

// The shards that each relay of a database owns, by the relay's name.
std::map<std::string, std::set<int>> shards_owned(Connection& connection);

}  // namespace waybill::bench
