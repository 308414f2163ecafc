#include "relay/breaker.h"

#include <algorithm>

#include "base/assert.h"

namespace waybill {
namespace {

constexpr std::chrono::milliseconds first_pause{100};
constexpr std::chrono::milliseconds longest_pause{4'000};
constexpr std::size_t ramp_full = 1024;

}  // namespace

std::size_t Breaker::allowance(std::size_t most) const {
  if (open()) return 0;
  return ramp_ == 0 ? most : std::min(most, ramp_);
}

void Breaker::unavailable(Steady now, double chance) {
  if (open()) return;  // One of several that were under way together: it is one outage.
  auto pause = first_pause;
  for (int i = 0; i < failures_ && pause < longest_pause; ++i) pause *= 2;
  pause = std::min(pause, longest_pause);
  ++failures_;
  trying_ = false;
  ramp_ = 1;
  next_try_ = now + pause / 2 +
              std::chrono::microseconds(static_cast<std::int64_t>(
                  chance * static_cast<double>(std::chrono::microseconds(pause / 2).count())));
}

void Breaker::try_now() {
  WAYBILL_ASSERT(open());
  trying_ = true;
}

void Breaker::available() {
  failures_ = 0;
  trying_ = false;
  if (ramp_ == 0) return;
  ramp_ *= 2;
  if (ramp_ >= ramp_full) ramp_ = 0;
}

}  // namespace waybill
