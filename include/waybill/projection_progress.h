#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "waybill/api.h"
#include "waybill/time.h"

namespace WAYBILL_API waybill {

// How far a projection (waybill/projection.h) is. Events count whether or not they concern it.
struct ProjectionProgress {
  static constexpr std::int64_t behind_max = 10'000;

  std::string name{};
  bool shadow = false;              // It is being rebuilt, and this is how far that is.
  std::int64_t handled = 0;         // events that have had their effect, since the tables were made
  std::int64_t behind = 0;          // that are there and that it has not come to; at most behind_max are counted
  std::chrono::milliseconds lag{};  // how long ago the oldest of these was recorded
  Time changed_at{};                // It is written at least once a minute while somebody runs it.
};

}  // namespace waybill
