#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>

namespace waybill::app {

// Asks for a stop when another stop token does, or when the time is over.
class TimeLimit {
 public:
  // No limit: only `other` counts.
  TimeLimit(const std::stop_token& other, std::optional<std::chrono::milliseconds> limit);

  std::stop_token token() const { return stop_.get_token(); }
  bool over() const { return over_; }

 private:
  void wait(const std::stop_token& end, std::chrono::milliseconds limit);

  std::stop_source stop_;
  std::atomic<bool> over_ = false;
  struct Forward {
    std::stop_source stop;
    void operator()() { stop.request_stop(); }
  };
  std::stop_callback<Forward> forward_;
  std::jthread timer_;
};

}  // namespace waybill::app
