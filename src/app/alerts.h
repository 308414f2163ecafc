#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "waybill/store.h"

namespace waybill::app {

struct AlertLimits {
  std::chrono::milliseconds age_max{60'000};  // of the oldest pending event
  std::optional<std::int64_t> pending_max{};
};

struct Alert {
  std::string name{};  // "late", "backlog", "no-relay", "unowned", "away"; stable, for scripts.
  std::string destination{};
  std::string text{};
};

// What an operator should look at now. `configured` are the destinations that should be served.
std::vector<Alert> alerts(const StoreStatus& status, const std::vector<std::string>& configured,
                          const AlertLimits& limits);

}  // namespace waybill::app
