#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "waybill/store.h"

namespace waybill {

// From where on something is an alert, for each destination. No number: never.
struct AlertLimits {
  std::optional<std::int64_t> pending_max{1'000};
  std::chrono::milliseconds age_max{60'000};  // of the oldest pending event
  std::chrono::milliseconds lag_max{5'000};   // How long nothing may be settled while events are pending.
  std::optional<std::int64_t> retrying_max{10};
  std::optional<std::int64_t> attempts_max{10};  // at one event
  std::optional<std::int64_t> blocked_keys_max{10};
  std::optional<std::int64_t> dead_max{0};
  std::optional<std::int64_t> held_max{0};
  std::optional<std::int64_t> expired_max{0};
  bool paused = true;  // Is a paused destination with events that wait for it an alert?
  // What is pending for longer holds the log back; none: events are kept for ever.
  std::optional<std::chrono::milliseconds> retention{std::chrono::hours(24) * 7};
};

// The names there are, in the order in which alerts() reports them; stable, for scripts and metrics.
inline constexpr std::string_view alert_names[] = {"no-relay", "unowned",   "rules",    "paused",  "backlog", "late",
                                                   "lag",      "retrying",  "attempts", "blocked", "held",    "expired",
                                                   "dead",     "held-back", "away",     "upkeep"};

struct Alert {
  std::string name{};         // one of alert_names
  std::string destination{};  // Empty: it is about none in particular.
  std::string text{};         // for people
};

// What an operator should look at now. `configured` are the destinations that should be served. A pure function: no
// clock but status.now.
std::vector<Alert> alerts(const StoreStatus& status, const std::vector<std::string>& configured,
                          const AlertLimits& limits);

}  // namespace waybill
