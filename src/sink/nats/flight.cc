#include "sink/nats/flight.h"

namespace waybill::nats {

void Flight::add(Parcel parcel, Steady now) {
  sent_.push_back({.parcel = parcel, .at = now});
  ++open_;
}

std::optional<Parcel> Flight::take(std::uint64_t number) {
  if (number < first_ || number >= next_number()) return std::nullopt;
  Entry& entry = sent_[number - first_];
  if (!entry.open) return std::nullopt;
  entry.open = false;
  --open_;
  const Parcel parcel = entry.parcel;
  forget_taken();
  return parcel;
}

void Flight::forget_taken() {
  while (!sent_.empty() && !sent_.front().open) {
    sent_.pop_front();
    ++first_;
  }
}

}  // namespace waybill::nats
