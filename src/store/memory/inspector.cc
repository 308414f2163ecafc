#include <algorithm>
#include <set>
#include <utility>

#include "model/routing.h"
#include "store/memory/tables.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

class MemoryInspector final : public Inspector {
 public:
  explicit MemoryInspector(TablesPtr tables) : tables_(std::move(tables)) {}

  StoreStatus status() override {
    const std::lock_guard lock(tables_->mutex);
    StoreStatus status{.store = "memory",
                       .where = "memory",
                       .schema_version = 1,
                       .now = tables_->clock.now(),
                       .events = {.value = tables_->last_seq()}};
    for (const auto& [place, row] : tables_->lanes) add_lane(place.first, place.second, row, status);
    for (const auto& [id, row] : tables_->relays) add_relay(id, row, status);
    return status;
  }

  EventList list(const EventFilter& filter) override {
    const std::lock_guard lock(tables_->mutex);
    EventList list{.memory = tables_};
    for (auto stored = tables_->log.rbegin(); stored != tables_->log.rend(); ++stored) {
      const EventView& event = stored->view;
      if (std::ssize(list.events) == filter.limit) break;
      if ((filter.before_seq && event.seq >= *filter.before_seq) || !like(filter.topic, event.topic) ||
          !like(filter.type, event.type) || !like(filter.tenant, event.tenant) ||
          !like(filter.aggregate_type, event.aggregate_type) || !like(filter.aggregate_id, event.aggregate_id) ||
          !like(filter.key, ordering_key(event)) || (filter.since && event.created_at < *filter.since) ||
          (filter.until && event.created_at >= *filter.until))
        continue;
      list.events.push_back(event);
      if (filter.states) list.states.push_back(states(event));
    }
    return list;
  }

  std::optional<EventStory> find(const EventId& id) override {
    const std::lock_guard lock(tables_->mutex);
    for (const StoredEvent& stored : tables_->log)
      if (stored.view.id == id) return story(stored.view);
    return std::nullopt;
  }

  UndeliveredList undelivered(const UndeliveredFilter& filter) override {
    const std::lock_guard lock(tables_->mutex);
    UndeliveredList list{.memory = tables_};
    for (const auto& [place, lane] : tables_->lanes)
      for (const auto& [seq, row] : lane.undelivered)
        if (matches(filter, place.first, row, event_of(*tables_, seq)))
          list.events.push_back(view(place.first, seq, row));
    std::sort(list.events.begin(), list.events.end(),
              [](const auto& a, const auto& b) { return a.row.seq > b.row.seq; });
    if (std::ssize(list.events) > filter.limit) list.events.resize(static_cast<std::size_t>(filter.limit));
    return list;
  }

  std::vector<BlockedKeyView> blocked_keys(const std::string& destination, int limit) override {
    const std::lock_guard lock(tables_->mutex);
    std::map<std::pair<std::string, std::uint64_t>, BlockedKeyView> keys;
    for (const auto& [place, lane] : tables_->lanes) {
      if (!destination.empty() && place.first != destination) continue;
      for (const auto& [seq, row] : lane.undelivered) {
        if (row.row.key == 0 || !row.row.blocks) continue;
        const UndeliveredView first = view(place.first, seq, row);
        auto& key =
            keys.try_emplace({place.first, row.row.key}, BlockedKeyView{.destination = place.first,
                                                                        .tenant = std::string(first.event.tenant),
                                                                        .key = ordering_key(first.event),
                                                                        .first = first.event.id,
                                                                        .standing = row.row.standing,
                                                                        .error = row.row.error,
                                                                        .since = row.since,
                                                                        .due = first.due})
                .first->second;
        ++key.events.value;
      }
    }
    std::vector<BlockedKeyView> list;
    for (auto& [number, key] : keys)
      if (std::ssize(list) < limit) list.push_back(std::move(key));
    return list;
  }

  std::vector<Finding> examine() override { return {}; }

 private:
  UndeliveredView view(const std::string& destination, std::int64_t seq, const UndeliveredRow& row) const {
    UndeliveredView view{.destination = destination,
                         .row = row.row,
                         .event = event_of(*tables_, seq),
                         .edit = row.edit.value_or(Edit{}),
                         .since = row.since,
                         .redrives = row.redrives};
    if (waits(row.row.standing))
      view.due = tables_->clock.now() + std::chrono::duration_cast<Time::duration>(row.due - tables_->clock.steady());
    return view;
  }

  EventStory story(const EventView& event) const {
    EventStory told{.event = event, .memory = tables_, .destinations = states(event)};
    for (EventAtDestination& at : told.destinations) {
      const LaneRow& lane = tables_->lanes.at({at.destination, event.shard});
      if (const auto tried = lane.attempts.find(event.seq); tried != lane.attempts.end()) at.attempts = tried->second;
    }
    return told;
  }

  std::vector<EventAtDestination> states(const EventView& event) const {
    std::vector<EventAtDestination> states;
    for (const auto& [place, lane] : tables_->lanes)
      if (place.second == event.shard) states.push_back(state(place.first, lane, event));
    return states;
  }

  static EventAtDestination state(const std::string& destination, const LaneRow& lane, const EventView& event) {
    EventAtDestination at{.destination = destination, .state = "pending"};
    if (lane.seq() >= event.seq) settle(at, lane, event);
    if (const auto here = lane.undelivered.find(event.seq); here != lane.undelivered.end()) {
      at.state = to_string(here->second.row.standing);
      at.skipped_by.reset();
    }
    return at;
  }

  // Goes through the lane's history: each time that the cursor passed the event, by which rules.
  static void settle(EventAtDestination& at, const LaneRow& lane, const EventView& event) {
    at.state = "skipped";
    std::int64_t before = lane.start_seq;
    for (const Settled& settled : lane.settled) {
      if (before < event.seq && settled.seq >= event.seq && settled.rules) {
        if (!at.settled_at) at.settled_at = settled.at;
        if (matches(settled.rules->match, event)) at.state = "published";
        at.skipped_by = *settled.rules;
      }
      before = settled.seq;
    }
    if (at.state == "published") at.skipped_by.reset();
  }

  void add_lane(const std::string& destination, std::int32_t shard, const LaneRow& row, StoreStatus& status) {
    if (status.destinations.empty() || status.destinations.back().name != destination)
      status.destinations.push_back({.name = destination});
    DestinationStatus& entry = status.destinations.back();
    ++entry.shards;
    entry.paused = tables_->destinations[destination].paused;
    std::set<std::uint64_t> blocked;
    for (const auto& [seq, undelivered] : row.undelivered) {
      ++entry.undelivered[undelivered.row.standing].value;
      if (undelivered.row.standing == Standing::retrying)
        entry.attempts_most = std::max(entry.attempts_most, undelivered.row.attempts);
      if (undelivered.row.blocks) blocked.insert(undelivered.row.key);
      if (undelivered.row.standing == Standing::retrying)
        entry.attempts_most = std::max(entry.attempts_most, undelivered.row.attempts);
    }
    entry.blocked_keys.value += std::ssize(blocked);
    const auto lease = tables_->leases.find({destination, shard});
    if (lease != tables_->leases.end() && tables_->alive(lease->second.owner)) ++entry.shards_owned;
    for (std::int64_t seq = row.seq(); seq < tables_->last_seq(); ++seq) {
      const EventView& event = tables_->log[static_cast<std::size_t>(seq)].view;
      if (event.shard != shard) continue;
      ++entry.pending.value;
      if (!entry.oldest_pending || event.created_at < *entry.oldest_pending) entry.oldest_pending = event.created_at;
    }
    if (!row.settled.empty() && (!entry.last_settled || *entry.last_settled < row.settled.back().at))
      entry.last_settled = row.settled.back().at;
  }

  void add_relay(const std::string& id, const RelayRow& row, StoreStatus& status) {
    RelayStatus relay{.id = id,
                      .name = row.name,
                      .alive = tables_->alive(id),
                      .last_seen = row.last_seen,
                      .destinations = row.destinations,
                      .troubles = row.troubles,
                      .rules = row.rules};
    for (const auto& [place, lease] : tables_->leases)
      if (lease.owner == id) ++relay.shards_owned;
    status.relays.push_back(std::move(relay));
  }

  TablesPtr tables_;
};

}  // namespace

std::unique_ptr<Inspector> memory_inspector(TablesPtr tables) {
  return std::make_unique<MemoryInspector>(std::move(tables));
}

}  // namespace waybill
