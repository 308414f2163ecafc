#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "waybill/progress.h"
#include "waybill/relay.h"
#include "waybill/store.h"

namespace waybill::app {

// Tells people how a drain goes: a bar on a terminal, and, when nothing moves, a line for each destination that is
// waited for, with the reason. Lines are repeated when the reason changes, and every 30 s.
class DrainWatch {
 public:
  // All must outlive it. `destinations` are those of `relay`.
  DrainWatch(Store& store, const Relay& relay, std::vector<std::string> destinations)
      : store_(store), relay_(relay), destinations_(std::move(destinations)) {}

  // Watches until `stop`. Never throws for a store that is away: that is one of the reasons to wait.
  void run(const std::stop_token& stop);

  // Why a destination was away when run() last looked; empty if it was not. After run().
  std::string reason(const std::string& destination) const;

 private:
  std::int64_t moved();
  std::optional<StoreStatus> status();
  std::vector<std::string> reasons_to_wait();
  void tell(Steady now);

  Store& store_;
  const Relay& relay_;
  const std::vector<std::string> destinations_;
  std::unique_ptr<Inspector> inspector_;
  std::optional<ProgressBar> bar_;
  std::map<std::string, BreakerState> away_;
  std::vector<std::string> told_;
  Steady next_look_{};
  Steady next_repeat_{};
};

// What a drain has left undelivered: a line for each destination. `all`: pending events count, since the drain did not
// come to its end; otherwise only those of paused destinations, the others were committed later.
// Events that wait for their time or for a decision (scheduled, held), and those that have ended (dead, expired,
// dismissed), are not left: no run would deliver them by itself.
std::vector<std::string> left_undelivered(Inspector& inspector, const std::vector<std::string>& destinations,
                                          const DrainWatch& watch, bool all);

}  // namespace waybill::app
