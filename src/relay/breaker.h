#pragma once

#include <chrono>
#include <cstddef>

#include "waybill/time.h"

namespace waybill {

// A Breaker keeps a destination that is away from being hammered: an outage is not an event's fault. Closed,
// everything may go. A destination found unavailable opens it: nothing goes until the next try, at growing
// intervals with jitter. After a successful try it ramps up: twice as many with every delivery, then closed.
// Not thread-safe.
class Breaker {
 public:
  // How many events may be under way now.
  std::size_t allowance(std::size_t most) const;

  // The destination was found away. `chance` is a random number in [0, 1).
  void unavailable(Steady now, double chance);
  // An event was delivered, or a try succeeded.
  void available();

  bool open() const { return failures_ > 0 && !trying_; }
  // REQUIRES: open()
  Steady next_try() const { return next_try_; }
  // The next try is under way.
  void try_now();

 private:
  int failures_ = 0;
  bool trying_ = false;
  std::size_t ramp_ = 0;  // 0: closed
  Steady next_try_{};
};

}  // namespace waybill
