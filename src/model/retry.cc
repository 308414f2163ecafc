#include "model/retry.h"

#include <algorithm>

#include "base/assert.h"

namespace waybill {

std::chrono::milliseconds retry_delay(const RetryPolicy& policy, int failures, double chance) {
  WAYBILL_ASSERT(failures >= 1);
  auto ceiling = policy.first_delay;
  for (int i = 1; i < failures && ceiling < policy.max_delay; ++i) ceiling *= 2;
  ceiling = std::min(ceiling, policy.max_delay);
  return std::chrono::milliseconds(static_cast<std::int64_t>(static_cast<double>(ceiling.count()) * chance));
}

}  // namespace waybill
