#pragma once

#include <atomic>
#include <functional>
#include <stop_token>
#include <thread>

#include "base/waker.h"

namespace waybill::app {

// Turns SIGTERM and SIGINT into a stop token; the second one ends the process at once. SIGHUP calls `on_hangup`, on a
// thread of its own; without one it ends the process, as it does by default. SIGPIPE and SIGXFSZ are ignored.
// Make it before any other thread is started: threads inherit which signals are blocked.
class Signals {
 public:
  explicit Signals(std::function<void()> on_hangup = {});
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  std::stop_token stop_token() const { return stop_.get_token(); }
  // The signal that came; 0 if none did.
  int received() const { return received_; }

 private:
  void listen();

  const std::function<void()> on_hangup_;
  std::stop_source stop_;
  std::atomic<int> received_ = 0;
  std::atomic<bool> over_ = false;
  Waker waker_;
  int fd_;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace waybill::app
