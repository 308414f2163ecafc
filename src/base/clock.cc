#include <ctime>

#include "waybill/time.h"

#include "base/assert.h"

namespace waybill {
namespace {

class SystemClock final : public Clock {
 public:
  Time now() const override { return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()); }
  Steady steady() const override { return std::chrono::steady_clock::now(); }
  Steady since_boot() const override {
    timespec time{};
    WAYBILL_ASSERT(::clock_gettime(CLOCK_BOOTTIME, &time) == 0);
    return Steady(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};

}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

}  // namespace waybill
