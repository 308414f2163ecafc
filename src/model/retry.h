#pragma once

#include <chrono>

#include "waybill/relay.h"

namespace waybill {

// How long to wait after the `failures`th failure in a row. `chance` is a random number in [0, 1).
// REQUIRES: failures >= 1
std::chrono::milliseconds retry_delay(const RetryPolicy& policy, int failures, double chance);

}  // namespace waybill
