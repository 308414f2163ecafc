#include "consume/backlog.h"

#include <algorithm>
#include <set>
#include <utility>

namespace waybill::consume {

template <typename Queue, typename Visit>
void Backlog::each_head(Queue& queue, const Visit& visit) {
  std::set<std::optional<std::string>> before;
  for (auto& waiting : queue) {
    const auto& key = waiting.delivery.key;
    const bool has_order = !key || !key->empty();
    if (has_order && before.contains(key)) continue;
    if (visit(waiting)) return;
    if (has_order) before.insert(key);
  }
}

void Backlog::add(Waiting waiting) {
  if (const auto known = failures_.find(waiting.delivery.id); known != failures_.end()) {
    waiting.failures = known->second;
    failures_.erase(known);
  }
  waiting_.push_back(std::move(waiting));
}

Waiting* Backlog::next(Steady now) {
  Waiting* found = nullptr;
  each_head(waiting_, [&](Waiting& waiting) {
    if (waiting.due <= now) found = &waiting;
    return found != nullptr;
  });
  return found;
}

Steady Backlog::due() const {
  Steady first = Steady::max();
  each_head(waiting_, [&](const Waiting& waiting) {
    first = std::min(first, waiting.due);
    return first == Steady();  // Nothing is earlier.
  });
  return first;
}

void Backlog::settle(std::uint64_t ticket) {
  const auto at =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) { return waiting.ticket == ticket; });
  if (at != waiting_.end()) waiting_.erase(at);
}

void Backlog::forget() {
  failures_.clear();
  for (const Waiting& waiting : waiting_)
    if (waiting.failures > 0) failures_[waiting.delivery.id] = waiting.failures;
  waiting_.clear();
}

std::size_t Backlog::retrying() const {
  return static_cast<std::size_t>(
      std::count_if(waiting_.begin(), waiting_.end(), [](const Waiting& waiting) { return waiting.due != Steady(); }));
}

}  // namespace waybill::consume
