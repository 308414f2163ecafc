#include "relay/lanes.h"

#include "base/assert.h"

namespace waybill {
namespace {

// A ticket is a lane's serial and a position in it. Positions last for years at a million events a second; serials
// come round, and one that is still in use is passed over. There are as many lanes as shards, and as many departed ones
// as a sink holds events, at most: far fewer than serials.
constexpr unsigned position_bits = 48;
constexpr std::uint64_t position_mask = (std::uint64_t{1} << position_bits) - 1;
constexpr std::uint32_t serial_mask = (std::uint32_t{1} << (64 - position_bits)) - 1;

}  // namespace

std::uint32_t Lanes::free_serial() {
  WAYBILL_ASSERT(by_serial_.size() + departed_.size() < serial_mask);
  do {
    last_serial_ = (last_serial_ + 1) & serial_mask;
  } while (by_serial_.contains(last_serial_) || departed_.contains(last_serial_));
  return last_serial_;
}

Lane& Lanes::open(const Opened& opened, const Lane::Options& options, Steady now) {
  const std::uint32_t serial = free_serial();
  auto& lane = by_serial_[serial];
  lane = std::make_unique<Lane>(opened, serial, options, now);
  return *lane;
}

void Lanes::drop(const Lane& lane) {
  auto place = by_serial_.extract(lane.serial());
  WAYBILL_ASSERT(!place.empty());
  if (const std::size_t unanswered = place.mapped()->under_way(); unanswered > 0)
    departed_[place.key()] = {.lane = std::move(place.mapped()), .unanswered = unanswered};
}

void Lanes::clear() {
  by_serial_.clear();
  departed_.clear();
  under_way_ = 0;
}

std::size_t Lanes::bytes() const {
  std::size_t sum = 0;
  for (const auto& [serial, lane] : by_serial_) sum += lane->bytes();
  return sum;
}

std::uint64_t Lanes::ticket(const Lane& lane, Lane::Position position) {
  WAYBILL_ASSERT(position <= position_mask);
  ++under_way_;
  return std::uint64_t{lane.serial()} << position_bits | position;
}

Lanes::Answered Lanes::answered(std::uint64_t ticket) {
  const auto serial = static_cast<std::uint32_t>(ticket >> position_bits);
  const auto lane = by_serial_.find(serial);
  const auto departed = departed_.find(serial);
  // Submitted before the sink was closed, and answered after all.
  if (lane == by_serial_.end() && departed == departed_.end()) return {};
  WAYBILL_ASSERT(under_way_ > 0);
  --under_way_;
  if (lane != by_serial_.end()) return {.lane = lane->second.get(), .position = ticket & position_mask};
  if (--departed->second.unanswered == 0) departed_.erase(departed);
  return {};
}

}  // namespace waybill
