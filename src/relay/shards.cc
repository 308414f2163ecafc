#include "relay/shards.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace waybill {
namespace {

const Lease* lease_of(const std::vector<Lease>& leases, std::int32_t shard) {
  const auto place = std::find_if(leases.begin(), leases.end(), [&](const Lease& each) { return each.shard == shard; });
  return place == leases.end() ? nullptr : &*place;
}

}  // namespace

// --- The keeper's side

void Shards::grant(const std::vector<Lease>& leases) {
  const std::lock_guard lock(mutex_);
  for (const Lease& lease : leases) {
    Lease& granted = orders_.grants.try_emplace(lease.shard, lease).first->second;
    if (granted.term < lease.term) granted = lease;
  }
  waits_ = false;
  idle_ = false;
}

void Shards::give_back(const std::set<std::int32_t>& shards) {
  const std::lock_guard lock(mutex_);
  orders_.returns.insert(shards.begin(), shards.end());
  idle_ = false;
}

void Shards::keep_only(std::vector<Lease> mine) {
  const std::lock_guard lock(mutex_);
  std::erase_if(orders_.grants, [&](const auto& grant) { return lease_of(mine, grant.first) == nullptr; });
  std::erase_if(orders_.returns, [&](std::int32_t shard) { return lease_of(mine, shard) == nullptr; });
  orders_.mine = std::move(mine);
}

void Shards::news() noexcept {
  const std::lock_guard lock(mutex_);
  orders_.news = true;
  waits_ = false;
  idle_ = false;
}

bool Shards::note(std::int64_t changes, bool paused) {
  const std::lock_guard lock(mutex_);
  const bool news = notes_.changes != changes || notes_.paused != paused;
  notes_ = {.changes = changes, .paused = paused};
  return news;
}

std::vector<Lease> Shards::held() const {
  const std::lock_guard lock(mutex_);
  std::map<std::int32_t, Lease> leases = orders_.grants;
  for (const auto& [number, shard] : by_number_) {
    Lease& lease = leases.try_emplace(number, shard.lease).first->second;
    if (lease.term < shard.lease.term) lease = shard.lease;
  }
  std::vector<Lease> held;
  for (auto& [number, lease] : leases) held.push_back(std::move(lease));
  return held;
}

std::vector<Lease> Shards::kept() const {
  std::vector<Lease> leases = held();
  const std::lock_guard lock(mutex_);
  std::erase_if(leases, [&](const Lease& lease) {
    const auto place = by_number_.find(lease.shard);
    return orders_.returns.contains(lease.shard) || (place != by_number_.end() && place->second.returning);
  });
  return leases;
}

bool Shards::any_open() const {
  const std::lock_guard lock(mutex_);
  return !orders_.returns.empty() || std::any_of(by_number_.begin(), by_number_.end(), [](const auto& place) {
    return place.second.stage == Shard::Stage::open;
  });
}

bool Shards::waits() const {
  const std::lock_guard lock(mutex_);
  return waits_;
}

bool Shards::idle() const {
  const std::lock_guard lock(mutex_);
  return idle_;
}

// --- The carrier's side

Shards::Followed Shards::follow() {
  const std::lock_guard lock(mutex_);
  const Orders orders = std::exchange(orders_, {});
  Followed followed;
  if (orders.mine) keep(*orders.mine, followed);
  for (const auto& [number, lease] : orders.grants)
    if (take(lease, followed)) ++followed.orders;
  for (const std::int32_t number : orders.returns) {
    const auto place = by_number_.find(number);
    if (place == by_number_.end() || place->second.returning) continue;
    place->second.returning = true;
    if (place->second.lane && !place->second.stale) place->second.lane->abandon_rest();
    ++followed.orders;
  }
  if (orders.news)
    for (auto& [number, shard] : by_number_) shard.hungry = true;
  if (followed_.changes && followed_.changes != notes_.changes) followed.orders += make_stale();
  followed_ = notes_;
  return followed;
}

std::size_t Shards::make_stale() {
  std::size_t made = 0;
  for (auto& [number, shard] : by_number_) {
    if (shard.stage != Shard::Stage::open || shard.ending()) continue;
    shard.stale = true;
    shard.lane->abandon_rest();
    ++made;
  }
  return made;
}

Shard Shards::begin_anew(std::int32_t number) {
  const std::lock_guard lock(mutex_);
  Shard& shard = by_number_.at(number);
  WAYBILL_ASSERT(shard.stage == Shard::Stage::open);
  const Shard before = shard;
  shard = {.lease = before.lease, .since = before.since};
  return before;
}

// An open shard knows its own term, so a newer one means that it was lost and came back: nothing that was read is good
// any more. Before it is open again, the newer term is the one that was raised for a connection that then broke.
void Shards::keep(const std::vector<Lease>& mine, Followed& followed) {
  for (auto place = by_number_.begin(); place != by_number_.end();) {
    Shard& shard = place->second;
    const Lease* lease = lease_of(mine, place->first);
    if (lease && (shard.stage != Shard::Stage::open || lease->term <= shard.lease.term)) {
      ++place;
    } else {
      followed.forgotten.push_back(std::move(shard));
      place = by_number_.erase(place);
    }
  }
}

bool Shards::take(const Lease& lease, Followed& followed) {
  const auto [place, fresh] = by_number_.try_emplace(lease.shard);
  Shard& shard = place->second;
  if (!fresh && shard.lease.term >= lease.term) return false;
  if (shard.stage == Shard::Stage::open) followed.forgotten.push_back(std::exchange(shard, {}));
  shard.lease = lease;
  return true;
}

void Shards::open(std::int32_t number, const Lease& lease, Lane& lane) {
  const std::lock_guard lock(mutex_);
  Shard& shard = by_number_.at(number);
  WAYBILL_ASSERT(shard.stage != Shard::Stage::open);
  shard.lease = lease;
  shard.stage = Shard::Stage::open;
  shard.begun = true;
  shard.lane = &lane;
  shard.hungry = true;
}

void Shards::break_all() {
  const std::lock_guard lock(mutex_);
  for (auto& [number, shard] : by_number_) {
    shard.stage = Shard::Stage::broken;
    shard.stale = false;
    shard.lane = nullptr;
  }
}

std::optional<Shard> Shards::forget(std::int32_t number) {
  const std::lock_guard lock(mutex_);
  auto node = by_number_.extract(number);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

void Shards::forget_all() {
  const std::lock_guard lock(mutex_);
  by_number_.clear();
  orders_ = {};
  waits_ = false;
  idle_ = false;
}

void Shards::make_all_hungry() {
  for (auto& [number, shard] : by_number_) shard.hungry = true;
}

bool Shards::report(bool waits, bool idle) {
  const std::lock_guard lock(mutex_);
  const bool reads_on = orders_.news || !orders_.grants.empty();
  const bool waited = std::exchange(waits_, waits && !reads_on);
  const bool idled = std::exchange(idle_, idle && !reads_on && orders_.returns.empty());
  return (waits_ && !waited) || (idle_ && !idled);
}

Shard* Shards::find(std::int32_t number) {
  const auto place = by_number_.find(number);
  return place == by_number_.end() ? nullptr : &place->second;
}

}  // namespace waybill
