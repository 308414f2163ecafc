#include "app/time_limit.h"

#include <condition_variable>
#include <mutex>

namespace waybill::app {

TimeLimit::TimeLimit(const std::stop_token& other, std::optional<std::chrono::milliseconds> limit)
    : forward_(other, Forward{stop_}) {
  if (limit) timer_ = std::jthread([this, limit](const std::stop_token& end) { wait(end, *limit); });
}

void TimeLimit::wait(const std::stop_token& end, std::chrono::milliseconds limit) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, end, limit, [] { return false; });
  if (end.stop_requested()) return;
  over_ = true;
  stop_.request_stop();
}

}  // namespace waybill::app
