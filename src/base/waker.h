#pragma once

#include "waybill/time.h"

namespace waybill {

// A Waker ends another thread's wait. wake() before the wait counts too; several count as one.
// wake() may be called from any thread; waiting is one thread's affair.
class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  void wake() noexcept;

  // Waits until wake(), until `fd` (if not negative) can be read or, if `or_written`, written, or until `deadline`.
  // True if it was woken by wake(), which is thereby used up.
  bool wait(Steady deadline, int fd = -1, bool or_written = false);

 private:
  int event_fd_;
};

}  // namespace waybill
