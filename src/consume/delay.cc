#include "consume/delay.h"

#include <algorithm>
#include <cstdint>
#include <random>

namespace waybill::consume {

std::chrono::milliseconds delay_after(int failures, std::chrono::milliseconds first, std::chrono::milliseconds most) {
  thread_local std::mt19937 random(std::random_device{}());
  constexpr int doublings_max = 30;
  const auto full = std::min<std::int64_t>(
      most.count(), first.count() * (std::int64_t{1} << std::clamp(failures - 1, 0, doublings_max)));
  return std::chrono::milliseconds(std::uniform_int_distribution(full / 2, full)(random));
}

}  // namespace waybill::consume
