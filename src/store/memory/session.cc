#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "model/routing.h"
#include "store/memory/tables.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

class MemorySession final : public Session {
 public:
  MemorySession(TablesPtr tables, const RelayIdentity& relay, std::string destination)
      : tables_(std::move(tables)), relay_(relay.id), destination_(std::move(destination)) {
    if (const auto rules = relay.rules.find(destination_); rules != relay.rules.end())
      match_ = canonical(rules->second);
  }

  std::vector<Opened> open(std::span<const Lease> leases, Start start, bool again) override {
    const std::lock_guard lock(tables_->mutex);
    if (!rules_) rules_ = applied_rules();
    std::vector<Opened> opened;
    for (Lease lease : leases) {
      if (!tables_->owns(relay_, lease)) continue;
      LeaseRow& lease_row = tables_->leases[{destination_, lease.shard}];
      if (again) {
        lease.term = ++lease_row.term;
        lease_row.in_doubt_until = tables_->clock.now();
      }
      const auto [row, fresh] = tables_->lanes.try_emplace({destination_, lease.shard});
      if (fresh && start == Start::now) row->second.start_seq = tables_->last_seq();
      read_upto_[lease.shard] = row->second.seq();
      opened.push_back(waiting_in(row->second));
      opened.back().lease = std::move(lease);
      opened.back().crashes = lease_row.crashes;
      opened.back().in_doubt_until = lease_row.in_doubt_until;
    }
    return opened;
  }

  void close(std::span<const std::int32_t> shards) override {
    for (const std::int32_t shard : shards) read_upto_.erase(shard);
  }

  Reading exchange(std::span<const Settlement> settled, const Appetite& appetite) override {
    const std::lock_guard lock(tables_->mutex);
    Reading reading;
    for (const Settlement& settlement : settled)
      if (!settle(settlement)) reading.lost.push_back(settlement.shard);
    for (const std::int32_t shard : appetite.shards)
      if (auto chunk = read(shard, appetite)) reading.chunks.push_back(std::move(*chunk));
    return reading;
  }

  Fetched fetch(std::span<const Wanted> wanted) override {
    const std::lock_guard lock(tables_->mutex);
    auto edits = std::make_shared<std::vector<std::shared_ptr<const Edit>>>();
    Fetched fetched{.memory = edits};
    for (const Wanted& each : wanted) fetch(each, fetched, *edits);
    return fetched;
  }

  std::shared_ptr<const void> load(EventView& /*event*/) override { return {}; }
  Time now() const override { return tables_->clock.now(); }

  void release(std::span<const Lease> leases) override {
    const std::lock_guard lock(tables_->mutex);
    for (const Lease& lease : leases) {
      if (!tables_->owns(relay_, lease)) continue;
      LeaseRow& row = tables_->leases[{destination_, lease.shard}];
      row.owner.clear();
      row.crashes = 0;
    }
  }

 private:
  struct Upto final : Window {};

  std::shared_ptr<const AppliedRules> applied_rules() {
    auto& newest = tables_->destinations[destination_].rules;
    if (!newest || newest->match != match_)
      newest = std::make_shared<const AppliedRules>(AppliedRules{.match = match_, .since = tables_->clock.now()});
    return newest;
  }

  bool settle(const Settlement& settlement) {
    if (!tables_->owns(relay_, {destination_, settlement.shard, settlement.term})) return false;
    LaneRow& lane = tables_->lanes.at({destination_, settlement.shard});
    for (const Undelivered& row : settlement.undelivered) {
      UndeliveredRow& place =
          lane.undelivered.try_emplace(row.seq, UndeliveredRow{.since = tables_->clock.now()}).first->second;
      if (!waits(row.standing) && place.row.standing != row.standing) end(place);
      const bool ignore_expiry = place.row.ignore_expiry;  // It is a person's to set.
      place.row = row;
      place.row.ignore_expiry = ignore_expiry;
      place.due = tables_->clock.steady() + row.wait;
    }
    for (const std::int64_t seq : settlement.delivered) lane.undelivered.erase(seq);
    for (const std::uint64_t key : settlement.buried_keys) bury(lane, key);
    for (const Attempt& attempt : settlement.attempts) lane.attempts[attempt.seq].push_back(attempt);
    if (settlement.count == 0) return true;
    WAYBILL_ASSERT(settlement.seq > lane.seq());
    lane.settled.push_back({.seq = settlement.seq, .at = tables_->clock.now(), .rules = rules_});
    return true;
  }

  void end(UndeliveredRow& place) {
    place.since = tables_->clock.now();
    place.moment = ++tables_->moments;
  }

  void bury(LaneRow& lane, std::uint64_t key) {
    for (auto& [seq, place] : lane.undelivered) {
      if (place.row.key != key || !place.row.blocks) continue;
      place.row.standing = Standing::dead;
      end(place);
      place.row.blocks = false;
      place.row.error = "buried with an earlier event of its key";
    }
  }

  std::chrono::milliseconds wait(const UndeliveredRow& place) const {
    return std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(place.due - tables_->clock.steady()));
  }

  Opened waiting_in(const LaneRow& lane) const {
    Opened opened;
    std::map<std::uint64_t, std::size_t> index;
    for (const auto& [seq, place] : lane.undelivered) {
      if (place.row.key == 0) {
        if (waits(place.row.standing)) opened.next_due = std::min(opened.next_due.value_or(wait(place)), wait(place));
        continue;
      }
      if (!place.row.blocks) continue;
      const auto [where, first] = index.try_emplace(place.row.key, opened.blocked.size());
      if (first) {
        opened.blocked.push_back({.key = place.row.key});
        if (waits(place.row.standing)) opened.blocked.back().wait = wait(place);
      }
      ++opened.blocked[where->second].events;
    }
    return opened;
  }

  void fetch(const Wanted& wanted, Fetched& fetched, std::vector<std::shared_ptr<const Edit>>& edits) {
    int left = wanted.events_max;
    const LaneRow& lane = tables_->lanes.at({destination_, wanted.shard});
    for (auto place = lane.undelivered.upper_bound(wanted.after); place != lane.undelivered.end(); ++place) {
      const Undelivered& row = place->second.row;
      if (row.key != wanted.key || (wanted.key == 0 ? !waits(row.standing) : !row.blocks)) continue;
      if (wanted.key == 0 && (wait(place->second) > 0ms || left <= 0)) {
        auto& next = fetched.next_due.try_emplace(wanted.shard, wait(place->second)).first->second;
        next = std::min(next, wait(place->second));
      } else if (left-- > 0) {
        fetched.items.push_back({.row = row, .event = tables_->log[static_cast<std::size_t>(row.seq) - 1].view});
        fetched.items.back().row.wait = wait(place->second);
        apply_edit(place->second, fetched.items.back().event, edits);
      }
    }
  }

  static void apply_edit(const UndeliveredRow& place, EventView& event,
                         std::vector<std::shared_ptr<const Edit>>& edits) {
    event.redrives = place.redrives;
    if (!place.edit) return;
    edits.push_back(std::make_shared<const Edit>(*place.edit));
    if (edits.back()->payload) event.payload = *edits.back()->payload;
    if (edits.back()->headers) event.headers = *edits.back()->headers;
  }

  std::optional<Chunk> read(std::int32_t shard, const Appetite& appetite) {
    std::int64_t& upto = read_upto_.at(shard);
    Chunk chunk{.shard = shard, .window = std::make_shared<Upto>(), .ends_window = true, .memory = tables_};
    while (upto < tables_->last_seq()) {
      const EventView& event = tables_->log[static_cast<std::size_t>(upto)].view;
      if (event.shard == shard) {
        if (std::ssize(chunk.events) == appetite.events_max ||
            (!chunk.events.empty() && chunk.bytes + event.payload.size() > appetite.bytes_max)) {
          chunk.ends_window = false;
          break;
        }
        chunk.events.push_back(event);
        chunk.bytes += event.payload.size();
      }
      ++upto;
    }
    if (chunk.events.empty()) return std::nullopt;
    return chunk;
  }

  TablesPtr tables_;
  const std::string relay_;
  const std::string destination_;
  Match match_;
  std::shared_ptr<const AppliedRules> rules_;  // None until the first open().
  std::map<std::int32_t, std::int64_t> read_upto_;
};

}  // namespace

std::unique_ptr<Session> memory_session(TablesPtr tables, const RelayIdentity& relay, const std::string& destination) {
  return std::make_unique<MemorySession>(std::move(tables), relay, destination);
}

}  // namespace waybill
