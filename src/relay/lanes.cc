#include "relay/lanes.h"

#include "base/assert.h"

namespace waybill {
namespace {

constexpr unsigned position_bits = 40;
constexpr std::uint64_t position_mask = (std::uint64_t{1} << position_bits) - 1;

}  // namespace

Lane& Lanes::open(Lease lease) {
  const std::int32_t shard = lease.shard;
  auto& lane = by_shard_[shard];
  WAYBILL_ASSERT(lane == nullptr);
  lane = std::make_unique<Lane>(std::move(lease), next_serial_++);
  by_serial_[lane->serial()] = lane.get();
  return *lane;
}

void Lanes::drop(std::int32_t shard) {
  const auto place = by_shard_.find(shard);
  if (place == by_shard_.end()) return;
  by_serial_.erase(place->second->serial());
  const std::size_t unanswered = place->second->under_way();
  if (unanswered > 0) {
    const std::uint32_t serial = place->second->serial();
    departed_[serial] = {.lane = std::move(place->second), .unanswered = unanswered};
  }
  by_shard_.erase(place);
}

void Lanes::drop_all() {
  while (!by_shard_.empty()) drop(by_shard_.begin()->first);
}

Lane* Lanes::find(std::int32_t shard) const {
  const auto place = by_shard_.find(shard);
  return place == by_shard_.end() ? nullptr : place->second.get();
}

std::size_t Lanes::bytes() const {
  std::size_t sum = 0;
  for (const auto& [shard, lane] : by_shard_) sum += lane->bytes();
  return sum;
}

std::uint64_t Lanes::ticket(const Lane& lane, Lane::Position position) {
  WAYBILL_ASSERT(position <= position_mask);
  ++under_way_;
  return std::uint64_t{lane.serial()} << position_bits | position;
}

Lanes::Answered Lanes::answered(std::uint64_t ticket) {
  WAYBILL_ASSERT(under_way_ > 0);
  --under_way_;
  const auto serial = static_cast<std::uint32_t>(ticket >> position_bits);
  if (const auto lane = by_serial_.find(serial); lane != by_serial_.end())
    return {.lane = lane->second, .position = ticket & position_mask};
  const auto departed = departed_.find(serial);
  WAYBILL_ASSERT(departed != departed_.end());
  if (--departed->second.unanswered == 0) departed_.erase(departed);
  return {};
}

}  // namespace waybill
