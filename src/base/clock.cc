#include "waybill/time.h"

namespace waybill {
namespace {

class SystemClock final : public Clock {
 public:
  Time now() const override { return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()); }
  Steady steady() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

}  // namespace waybill
