#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "waybill/relay.h"

#include "admin/figures.h"
#include "admin/metrics_page.h"
#include "upkeep/caretaker.h"

namespace waybill::app {

// What is told about a program whose relay is another one after every reload: counts go on where they were.
// metrics() and health() may be called from any thread.
class Monitor {
 public:
  explicit Monitor(Figures& figures) : figures_(figures) {}

  // Both must stay until it looks away.
  void look_at(const Relay& relay, const Caretaker& caretaker, std::vector<std::string> destinations);
  void look_away();

  Metrics metrics();
  RelayHealth health() const;

 private:
  std::map<std::string, RelayCounts> counts() const;

  Figures& figures_;
  mutable std::mutex mutex_;  // guards all that follows
  const Relay* relay_ = nullptr;
  const Caretaker* caretaker_ = nullptr;
  std::vector<std::string> destinations_;
  std::map<std::string, RelayCounts> before_;  // by relays that are gone
  std::optional<std::size_t> held_back_;
};

}  // namespace waybill::app
