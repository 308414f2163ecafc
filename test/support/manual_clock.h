#pragma once

#include <mutex>

#include "waybill/time.h"

namespace waybill {

// A clock that stands still until it is moved. Thread-safe.
class ManualClock final : public Clock {
 public:
  Time now() const override {
    const std::lock_guard lock(mutex_);
    return Time(std::chrono::sys_days(std::chrono::year(2026) / 2 / 19)) + elapsed_ + suspended_ + set_;
  }
  Steady steady() const override {
    const std::lock_guard lock(mutex_);
    return Steady(std::chrono::hours(1)) + elapsed_;
  }
  Steady since_boot() const override {
    const std::lock_guard lock(mutex_);
    return Steady(std::chrono::hours(2)) + elapsed_ + suspended_;
  }
  void advance(std::chrono::microseconds by) {
    const std::lock_guard lock(mutex_);
    elapsed_ += by;
  }
  // The machine sleeps: only since_boot() and the wall clock go on.
  void suspend(std::chrono::microseconds by) {
    const std::lock_guard lock(mutex_);
    suspended_ += by;
  }
  // Somebody sets the wall clock.
  void set(std::chrono::microseconds by) {
    const std::lock_guard lock(mutex_);
    set_ += by;
  }

 private:
  mutable std::mutex mutex_;
  std::chrono::microseconds elapsed_{0};
  std::chrono::microseconds suspended_{0};
  std::chrono::microseconds set_{0};
};

}  // namespace waybill
