#pragma once

#include <chrono>

#include "waybill/api.h"

namespace WAYBILL_API waybill {

// A moment by the wall clock, in UTC. What is stored and shown.
using Time = std::chrono::sys_time<std::chrono::microseconds>;

// A moment by the monotonic clock. What is waited for: no step of the wall clock moves it.
using Steady = std::chrono::steady_clock::time_point;

// Where time comes from, so that tests move it by hand. Safe to call from several threads.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
  virtual Steady steady() const = 0;
  // As steady(), but goes on while the machine is suspended: what others count meanwhile, such as a lease, is measured
  // by it. Only to be compared with itself.
  virtual Steady since_boot() const { return steady(); }
};

// The machine's own clocks. Lives as long as the process.
const Clock& system_clock();

}  // namespace waybill
