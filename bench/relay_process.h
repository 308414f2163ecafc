#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "delivery_log.h"
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
  // Throws, with its log, if it has ended by itself.
  void require_running();
  pid_t pid() const { return process_->pid(); }
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
  TmpFolder folder_;
  std::optional<ChildProcess> process_;
};

// flaky_relay as a process of its own: its destination writes down what it gets, and fails as `moods` say.
class FlakyRelay {
 public:
  FlakyRelay(const std::string& store, const std::string& destination, const std::vector<std::string>& moods = {});

  void stop();
  void kill();
  pid_t pid() const { return process_->pid(); }
  const std::string& name() const { return name_; }
  // What the destination got since the last call.
  std::vector<Delivery> deliveries() { return reader_.read(); }

 private:
  const std::string name_;
  TmpFolder folder_;
  DeliveryReader reader_;
  std::optional<ChildProcess> process_;
};

// The shards that each relay of a database owns, by the relay's name.
std::map<std::string, std::set<int>> shards_owned(Connection& connection);

}  // namespace waybill::bench
