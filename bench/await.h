#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace waybill::bench {

// Looks again and again until `condition` holds; fails after a minute.
template <typename Condition>
void await(const std::string& what, std::chrono::milliseconds apart, const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("waited in vain: " + what);
    std::this_thread::sleep_for(apart);
  }
}

}  // namespace waybill::bench
