#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "waybill/time.h"

namespace waybill {

// Calls `step`, which returns when it is time for the next call, until `stop`.
template <typename Step>
void take_turns(const std::stop_token& stop, const Clock& clock, const Step& step) {
  std::mutex mutex;
  std::condition_variable_any pause;
  while (!stop.stop_requested()) {
    const Steady next = step();
    std::unique_lock lock(mutex);
    pause.wait_for(lock, stop, next - clock.steady(), [] { return false; });
  }
}

}  // namespace waybill
