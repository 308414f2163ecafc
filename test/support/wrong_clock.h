#pragma once

#include <chrono>

#include "waybill/time.h"

namespace waybill {

// The clock of a machine that takes another time for the present.
class WrongClock final : public Clock {
 public:
  explicit WrongClock(std::chrono::hours wrong) : wrong_(wrong) {}
  Time now() const override { return system_clock().now() + wrong_; }
  Steady steady() const override { return system_clock().steady(); }
  Steady since_boot() const override { return system_clock().since_boot(); }

 private:
  const std::chrono::hours wrong_;
};

}  // namespace waybill
