#include "http/message.h"

#include <utility>

#include "http/wake_queue.h"

namespace waybill::http {

std::optional<std::string_view> find(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  if (found == fields.end()) return std::nullopt;
  return found->second;
}

Wake::Wake(std::shared_ptr<WakeQueue> queue, std::uint64_t connection)
    : queue_(std::move(queue)), connection_(connection) {}

void Wake::operator()() const {
  if (queue_) queue_->wake(connection_);
}

void WakeQueue::wake(std::uint64_t connection) {
  {
    const std::lock_guard lock(mutex_);
    const bool pending = !woken_.empty();
    woken_.insert(connection);
    if (pending) return;
  }
  waker_.wake();
}

std::set<std::uint64_t> WakeQueue::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(woken_, {});
}

}  // namespace waybill::http
