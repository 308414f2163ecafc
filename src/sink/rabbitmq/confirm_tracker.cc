#include "sink/rabbitmq/confirm_tracker.h"

#include <algorithm>
#include <utility>

namespace waybill::rabbitmq {

std::uint64_t ConfirmTracker::add(Sent sent) {
  places_.push_back({.sent = std::move(sent)});
  ++waiting_;
  return first_ + places_.size() - 1;
}

bool ConfirmTracker::confirm(std::uint64_t number, bool multiple, const Take& take) {
  const std::uint64_t end = first_ + places_.size();
  if (number >= end || (number == 0 && !multiple)) return false;
  const std::uint64_t last = number == 0 ? end - 1 : number;
  // What is below `first_` has been confirmed before.
  const std::uint64_t from = multiple ? first_ : number;
  for (std::uint64_t each = std::max(from, first_); each <= last; ++each) {
    Place& place = places_[each - first_];
    if (std::exchange(place.confirmed, true)) continue;
    --waiting_;
    take(place.sent);
  }
  drop_confirmed();
  return true;
}

void ConfirmTracker::drop_confirmed() {
  while (!places_.empty() && places_.front().confirmed) {
    places_.pop_front();
    ++first_;
    if (returned_next_ > 0) --returned_next_;
  }
}

bool ConfirmTracker::give_back(const EventId& id) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const std::size_t at = (returned_next_ + i) % places_.size();
    Place& place = places_[at];
    if (place.confirmed || place.sent.returned || place.sent.id != id) continue;
    place.sent.returned = true;
    returned_next_ = at + 1;
    return true;
  }
  return false;
}

void ConfirmTracker::abandon(const Take& take) {
  returned_next_ = 0;
  for (; !places_.empty(); places_.pop_front(), ++first_) {
    if (places_.front().confirmed) continue;
    take(places_.front().sent);
    --waiting_;
  }
}

}  // namespace waybill::rabbitmq
