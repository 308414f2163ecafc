#pragma once

#include <cstdint>
#include <mutex>
#include <set>

#include "base/waker.h"

namespace waybill::http {

// The connections that were woken and the server's thread has not looked at yet. Outlives the server where a
// Wake does. Thread-safe, except wait().
class WakeQueue {
 public:
  void wake(std::uint64_t connection);

  // Ends the wait without naming a connection.
  void interrupt() { waker_.wake(); }

  // Waits for a wake, for `fd`, or for `deadline`. One thread's affair.
  void wait(Steady deadline, int fd) { waker_.wait(deadline, fd); }

  // Those woken since the last call.
  std::set<std::uint64_t> take();

 private:
  Waker waker_;
  std::mutex mutex_;
  std::set<std::uint64_t> woken_;  // guarded by mutex_
};

}  // namespace waybill::http
