#include "relay/outage.h"

#include <algorithm>

#include "model/retry.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

constexpr auto pause_min = 20ms;
constexpr RetryPolicy pauses{.first_delay = 100ms, .max_delay = 2000ms};

}  // namespace

void Outage::failed(const Error& error, Steady now) {
  if (failures_ == 0) log_.warning("the store is away; will try again", {who_, {"error", error.what()}});
  const double chance = std::uniform_real_distribution<>(0.0, 1.0)(random_);
  next_try_ = now + std::max(pause_min, retry_delay(pauses, ++failures_, chance));
}

void Outage::worked() {
  if (failures_ == 0) return;
  log_.info("the store is back", {who_, {"failures", std::to_string(failures_)}});
  failures_ = 0;
  next_try_ = {};
}

}  // namespace waybill
