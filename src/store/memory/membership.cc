#include <algorithm>
#include <utility>

#include "store/memory/tables.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

class MemoryMembership final : public Membership {
 public:
  MemoryMembership(TablesPtr tables, RelayIdentity relay) : tables_(std::move(tables)), relay_(std::move(relay)) {}
  ~MemoryMembership() override {
    const std::lock_guard lock(tables_->mutex);
    std::erase(tables_->sleepers, waker_);
  }

  Pulse beat(std::span<const std::string> destinations, bool leaving) override {
    const std::lock_guard lock(tables_->mutex);
    const auto served = leaving ? std::span<const std::string>{} : destinations;
    tables_->relays[relay_.id] = {.name = relay_.name,
                                  .alive_until = tables_->clock.steady() + relay_.lease,
                                  .last_seen = tables_->clock.now(),
                                  .destinations = {served.begin(), served.end()},
                                  .troubles = troubles_,
                                  .rules = relay_.rules};
    Pulse pulse{.next_expiry = relay_.lease};
    for (const std::string& destination : destinations) {
      pulse.shards[destination] = tables_->options.shards;
      pulse.changes[destination] = tables_->destinations[destination].changes;
      if (tables_->destinations[destination].paused) pulse.paused.insert(destination);
      for (std::int32_t shard = 0; shard < tables_->options.shards; ++shard) sort_lease(destination, shard, pulse);
    }
    for (const auto& [id, row] : tables_->relays) count_relay(id, row, pulse);
    return pulse;
  }

  void report(std::span<const Trouble> troubles) override { troubles_.assign(troubles.begin(), troubles.end()); }

  std::vector<Lease> take(std::span<const Lease> free) override {
    const std::lock_guard lock(tables_->mutex);
    std::vector<Lease> won;
    for (const Lease& lease : free) {
      LeaseRow& row = tables_->leases[{lease.destination, lease.shard}];
      if (row.term != lease.term || tables_->alive(row.owner)) continue;
      const auto lane = tables_->lanes.find({lease.destination, lease.shard});
      const std::int64_t settled = lane == tables_->lanes.end() ? 0 : lane->second.seq();
      const bool stuck = !row.owner.empty() && settled == row.settled_when_taken;
      row = {.term = row.term + 1,
             .owner = relay_.id,
             .crashes = stuck ? row.crashes + 1 : 0,
             .settled_when_taken = settled,
             .in_doubt_until = row.owner.empty() ? row.in_doubt_until : tables_->clock.now()};
      won.push_back({lease.destination, lease.shard, row.term});
    }
    return won;
  }

  bool poll() override {
    const std::lock_guard lock(tables_->mutex);
    return look();
  }

  Sleep sleep() override {
    asleep_ = true;
    return Sleep::told;
  }

  void rise() override { asleep_ = false; }

  Told wait(Waker& waker, Steady deadline) override {
    {
      const std::lock_guard lock(tables_->mutex);
      if (waker_ != &waker) {
        waker_ = &waker;
        tables_->sleepers.push_back(&waker);
      }
    }
    waker.wait(deadline);
    const std::lock_guard lock(tables_->mutex);
    return asleep_ && look() ? Told::news : Told::nothing;
  }

  void leave() override {
    const std::lock_guard lock(tables_->mutex);
    tables_->relays.erase(relay_.id);
  }

 private:
  bool look() { return std::exchange(seen_, tables_->last_seq()) < tables_->last_seq(); }

  void sort_lease(const std::string& destination, std::int32_t shard, Pulse& pulse) {
    const LeaseRow& row = tables_->leases[{destination, shard}];
    const Lease lease{destination, shard, row.term};
    if (row.owner == relay_.id) {
      pulse.mine.push_back(lease);
    } else if (!tables_->alive(row.owner)) {
      pulse.free.push_back(lease);
    }
  }

  void count_relay(const std::string& id, const RelayRow& row, Pulse& pulse) {
    if (!tables_->alive(id)) return;
    for (const std::string& destination : row.destinations) ++pulse.relays[destination];
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(row.alive_until - tables_->clock.steady());
    if (id != relay_.id) pulse.next_expiry = std::min(pulse.next_expiry, left);
  }

  TablesPtr tables_;
  const RelayIdentity relay_;
  std::vector<Trouble> troubles_;
  std::int64_t seen_ = 0;
  bool asleep_ = false;
  Waker* waker_ = nullptr;
};

}  // namespace

std::unique_ptr<Membership> memory_membership(TablesPtr tables, const RelayIdentity& relay) {
  return std::make_unique<MemoryMembership>(std::move(tables), relay);
}

}  // namespace waybill
