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

// What is told about a program whose relay is another one after every reload: counts go on where they were. For a while
// there may be two, the one that leaves and the next.
// metrics() and health() may be called from any thread.
class Monitor {
 public:
  explicit Monitor(Figures& figures) : figures_(figures) {}

  // Both must stay until it looks away from the relay.
  void look_at(const Relay& relay, const Caretaker& caretaker, std::vector<std::string> destinations);
  void look_away(const Relay& relay);

  Metrics metrics();
  RelayHealth health() const;

 private:
  struct Watched {
    const Relay* relay = nullptr;
    const Caretaker* caretaker = nullptr;
    std::vector<std::string> destinations{};

    void add_counts(std::map<std::string, RelayCounts>& sum) const;
  };
  std::map<std::string, RelayCounts> counts() const;

  Figures& figures_;
  mutable std::mutex mutex_;                   // guards all that follows
  std::vector<Watched> watched_;               // The last one is at work, others leave.
  std::map<std::string, RelayCounts> before_;  // by relays that are gone
  std::optional<std::size_t> held_back_;
};

}  // namespace waybill::app
