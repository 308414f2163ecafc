#include "admin/figures.h"

#include <utility>

#include "waybill/error.h"

#include "base/turns.h"

namespace waybill {

// At the start it asks once, for whoever comes first.
Figures::Figures(Store& store, const Clock& clock)
    : store_(store), clock_(clock), wanted_(clock.steady() - interest + interval) {}

std::optional<Figures::Snapshot> Figures::read() {
  const std::lock_guard lock(mutex_);
  wanted_ = clock_.steady();
  const auto age = std::chrono::floor<std::chrono::milliseconds>(wanted_ - known_);
  if (!status_ || age > age_max) return std::nullopt;
  return Snapshot{.status = *status_, .age = age};
}

void Figures::run(const std::stop_token& stop) {
  take_turns(stop, clock_, [this] { return step(); });
}

Steady Figures::step() {
  const Steady now = clock_.steady();
  if (now < next_) return next_;
  bool wanted = false;
  {
    const std::lock_guard lock(mutex_);
    wanted = now - wanted_ < interest;
  }
  if (wanted) {
    look();
  } else {
    inspector_.reset();  // No connection lies idle.
  }
  return next_ = clock_.steady() + interval;
}

// That the store is away is the keeper's to say; here it shows by the figures' age.
void Figures::look() {
  const Steady asked = clock_.steady();
  try {
    if (!inspector_) inspector_ = store_.inspector();
    StoreStatus status = inspector_->status();
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    known_ = asked;
  } catch (const std::exception&) {
    inspector_.reset();
  }
}

}  // namespace waybill
