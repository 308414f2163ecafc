#include "store/memory/memory_store.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/assert.h"
#include "base/waker.h"
#include "model/key_hash.h"
#include "model/routing.h"
#include "model/validate.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

struct StoredEvent {
  Event event;
  std::string headers;
  EventView view;
};

struct LeaseRow {
  std::int64_t term = 0;
  std::string owner;
  std::int32_t crashes = 0;
  std::int64_t settled_when_taken = 0;
};

struct RelayRow {
  std::string name;
  Steady alive_until{};
  Time last_seen{};
  std::vector<std::string> destinations;
  std::vector<Trouble> troubles;
};

struct Settled {
  std::int64_t seq = 0;
  Time at{};
};

struct UndeliveredRow {
  Undelivered row{};
  Steady due{};
  Time since{};
  std::int32_t redrives = 0;
  EventId operation{};
  std::optional<Edit> edit{};
};

struct DestinationRow {
  std::int64_t changes = 0;
  bool paused = false;
};

struct LaneRow {
  std::map<std::int64_t, UndeliveredRow> undelivered;
  std::map<std::int64_t, std::vector<Attempt>> attempts;
  std::int64_t start_seq = 0;
  std::vector<Settled> settled;  // Append-only, as every store's cursor.
  std::int64_t seq() const { return settled.empty() ? start_seq : settled.back().seq; }
};

// Everything the store holds. One mutex for all of it: nobody waits in here.
struct Tables {
  explicit Tables(MemoryOptions the_options, const Clock& the_clock) : options(the_options), clock(the_clock) {}

  const MemoryOptions options;
  const Clock& clock;
  std::mutex mutex;
  std::deque<StoredEvent> log;  // seq = index + 1
  std::map<std::pair<std::string, std::string>, EventId> dedup;
  std::map<std::string, RelayRow> relays;
  std::map<std::pair<std::string, std::int32_t>, LeaseRow> leases;
  std::map<std::pair<std::string, std::int32_t>, LaneRow> lanes;
  std::map<std::string, DestinationRow> destinations;
  std::vector<OperationView> operations;
  std::vector<Waker*> sleepers;

  std::int64_t last_seq() const { return static_cast<std::int64_t>(log.size()); }
  bool alive(const std::string& relay) const {
    const auto row = relays.find(relay);
    return row != relays.end() && row->second.alive_until > clock.steady();
  }
  bool owns(const std::string& relay, const Lease& lease) const {
    const auto row = leases.find({lease.destination, lease.shard});
    return row != leases.end() && row->second.term == lease.term && row->second.owner == relay;
  }
};

using TablesPtr = std::shared_ptr<Tables>;

bool waits(Standing standing) {
  return standing == Standing::retrying || standing == Standing::blocked || standing == Standing::scheduled;
}

void fill_view(StoredEvent& stored, std::int64_t seq, std::int32_t shards, Time now) {
  Event& event = stored.event;
  stored.headers = headers_json(event.headers);
  stored.view = {.seq = seq,
                 .id = *event.id,
                 .tenant = event.tenant,
                 .topic = event.topic,
                 .type = event.type.empty() ? event.topic : event.type,
                 .aggregate_type = event.aggregate.type,
                 .aggregate_id = event.aggregate.id,
                 .version = event.version,
                 .key = event.key,
                 .payload = event.payload ? *event.payload : *event.payload_bytes,
                 .payload_is_json = event.payload.has_value(),
                 .content_type = !event.content_type.empty() ? std::string_view(event.content_type)
                                 : event.payload             ? "application/json"
                                                             : "application/octet-stream",
                 .metadata = event.metadata,
                 .headers = stored.headers,
                 .routing_key = event.routing_key,
                 .schema_id = event.schema_id,
                 .schema_version = event.schema_version,
                 .occurred_at = event.occurred_at.value_or(now),
                 .created_at = now,
                 .not_before = event.not_before,
                 .expires_at = event.expires_at,
                 .attempts_max = event.attempts_max,
                 .dedup_key = event.dedup_key};
  const std::uint64_t hash = key_hash(stored.view);
  const std::uint64_t spread = hash != 0 ? hash : static_cast<std::uint64_t>(seq);
  stored.view.shard = static_cast<std::int32_t>(spread % static_cast<std::uint64_t>(shards));
}

class MemoryWriter final : public Writer {
 public:
  explicit MemoryWriter(TablesPtr tables) : tables_(std::move(tables)) {}

  std::vector<EventId> enqueue(std::span<const Event> events) override {
    for (const Event& event : events) validate(event);
    std::vector<EventId> ids;
    for (const Event& event : events) ids.push_back(add(event));
    return ids;
  }

  void commit() override {
    const std::lock_guard lock(tables_->mutex);
    for (Event& event : pending_) {
      if (!event.dedup_key.empty() && !tables_->dedup.try_emplace({event.tenant, event.dedup_key}, *event.id).second)
        continue;
      StoredEvent& stored = tables_->log.emplace_back();
      stored.event = std::move(event);
      fill_view(stored, tables_->last_seq(), tables_->options.shards, tables_->clock.now());
    }
    pending_.clear();
    for (Waker* sleeper : tables_->sleepers) sleeper->wake();
  }

 private:
  EventId add(const Event& event) {
    if (!event.dedup_key.empty()) {
      const std::lock_guard lock(tables_->mutex);
      const auto first = tables_->dedup.find({event.tenant, event.dedup_key});
      if (first != tables_->dedup.end()) return first->second;
      for (const Event& earlier : pending_)
        if (earlier.dedup_key == event.dedup_key && earlier.tenant == event.tenant) return *earlier.id;
    }
    pending_.push_back(event);
    if (!pending_.back().id) pending_.back().id = EventId::make();
    return *pending_.back().id;
  }

  TablesPtr tables_;
  std::vector<Event> pending_;
};

class MemorySession final : public Session {
 public:
  MemorySession(TablesPtr tables, std::string relay, std::string destination)
      : tables_(std::move(tables)), relay_(std::move(relay)), destination_(std::move(destination)) {}

  std::vector<Opened> open(std::span<const Lease> leases, Start start, bool again) override {
    const std::lock_guard lock(tables_->mutex);
    std::vector<Opened> opened;
    for (Lease lease : leases) {
      if (!tables_->owns(relay_, lease)) continue;
      LeaseRow& lease_row = tables_->leases[{destination_, lease.shard}];
      if (again) lease.term = ++lease_row.term;
      const auto [row, fresh] = tables_->lanes.try_emplace({destination_, lease.shard});
      if (fresh && start == Start::now) row->second.start_seq = tables_->last_seq();
      read_upto_[lease.shard] = row->second.seq();
      opened.push_back(waiting_in(row->second));
      opened.back().lease = std::move(lease);
      opened.back().crashes = lease_row.crashes;
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

  bool settle(const Settlement& settlement) {
    if (!tables_->owns(relay_, {destination_, settlement.shard, settlement.term})) return false;
    LaneRow& lane = tables_->lanes.at({destination_, settlement.shard});
    for (const Undelivered& row : settlement.undelivered) {
      UndeliveredRow& place =
          lane.undelivered.try_emplace(row.seq, UndeliveredRow{.since = tables_->clock.now()}).first->second;
      place.row = row;
      place.due = tables_->clock.steady() + row.wait;
    }
    for (const std::int64_t seq : settlement.delivered) lane.undelivered.erase(seq);
    for (const std::uint64_t key : settlement.buried_keys) bury(lane, key);
    for (const Attempt& attempt : settlement.attempts) lane.attempts[attempt.seq].push_back(attempt);
    if (settlement.count == 0) return true;
    WAYBILL_ASSERT(settlement.seq > lane.seq());
    lane.settled.push_back({.seq = settlement.seq, .at = tables_->clock.now()});
    return true;
  }

  static void bury(LaneRow& lane, std::uint64_t key) {
    for (auto& [seq, place] : lane.undelivered) {
      if (place.row.key != key || !place.row.blocks) continue;
      place.row.standing = Standing::dead;
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
      if (wanted.key == 0 && wait(place->second) > 0ms) {
        auto& next = fetched.next_due.try_emplace(wanted.shard, wait(place->second)).first->second;
        next = std::min(next, wait(place->second));
      } else if (left-- > 0) {
        fetched.items.push_back({.row = row, .event = tables_->log[static_cast<std::size_t>(row.seq) - 1].view});
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
  std::map<std::int32_t, std::int64_t> read_upto_;
};

class MemoryMembership final : public Membership {
 public:
  MemoryMembership(TablesPtr tables, RelayIdentity relay) : tables_(std::move(tables)), relay_(std::move(relay)) {}
  ~MemoryMembership() override {
    const std::lock_guard lock(tables_->mutex);
    std::erase(tables_->sleepers, waker_);
  }

  Pulse beat(std::span<const std::string> destinations) override {
    const std::lock_guard lock(tables_->mutex);
    tables_->relays[relay_.id] = {.name = relay_.name,
                                  .alive_until = tables_->clock.steady() + relay_.lease,
                                  .last_seen = tables_->clock.now(),
                                  .destinations = {destinations.begin(), destinations.end()},
                                  .troubles = troubles_};
    Pulse pulse{.next_expiry = relay_.lease, .news = look()};
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
             .settled_when_taken = settled};
      won.push_back({lease.destination, lease.shard, row.term});
    }
    return won;
  }

  bool poll() override {
    const std::lock_guard lock(tables_->mutex);
    return look();
  }

  bool sleep() override {
    asleep_ = true;
    return true;
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

class MemoryFollower final : public Follower {
 public:
  explicit MemoryFollower(TablesPtr tables) : tables_(std::move(tables)) {}

  Page read(std::string_view place, int events_max) override {
    const std::lock_guard lock(tables_->mutex);
    std::int64_t upto = place == "now" ? tables_->last_seq() : parse(place);
    Page page{.memory = tables_};
    while (upto < tables_->last_seq() && std::ssize(page.items) < events_max) {
      const EventView& event = tables_->log[static_cast<std::size_t>(upto++)].view;
      page.items.push_back({.event = event, .place = std::to_string(event.seq)});
    }
    page.place = std::to_string(upto);
    page.more = upto < tables_->last_seq();
    return page;
  }

 private:
  std::int64_t parse(std::string_view place) const {
    std::int64_t seq = 0;
    if (place.empty()) return 0;
    const auto [end, error] = std::from_chars(place.data(), place.data() + place.size(), seq);
    if (error != std::errc() || end != place.data() + place.size() || seq < 0 || seq > tables_->last_seq())
      throw Error(Remedy::fix_input, "this is no place in the log");
    return seq;
  }

  TablesPtr tables_;
};

const EventView& event(const Tables& tables, std::int64_t seq) {
  return tables.log[static_cast<std::size_t>(seq) - 1].view;
}

bool like(const std::string& pattern, std::string_view text) {
  return pattern.empty() || matches(pattern, text);
}

bool matches(const UndeliveredFilter& filter, const std::string& destination, const UndeliveredRow& row,
             const EventView& event) {
  const auto among = [](const auto& list, const auto& value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  };
  return (filter.destination.empty() || filter.destination == destination) &&
         among(filter.standings, row.row.standing) && among(filter.ids, event.id) && like(filter.topic, event.topic) &&
         like(filter.type, event.type) && like(filter.tenant, event.tenant) &&
         like(filter.aggregate_type, event.aggregate_type) && like(filter.aggregate_id, event.aggregate_id) &&
         like(filter.key, ordering_key(event)) && like(filter.error, row.row.error) &&
         (!filter.since || row.since >= *filter.since) && (!filter.until || row.since < *filter.until) &&
         (!filter.before_seq || event.seq < *filter.before_seq);
}

class MemoryOperator final : public Operator {
 public:
  explicit MemoryOperator(TablesPtr tables) : tables_(std::move(tables)) {}

  std::int64_t count(const UndeliveredFilter& filter) override {
    const std::lock_guard lock(tables_->mutex);
    std::int64_t found = 0;
    each(filter, [&](UndeliveredRow& /*row*/) { return ++found, true; });
    return found;
  }

  std::int64_t redrive(const Operation& operation, const UndeliveredFilter& filter, int per_second, int most) override {
    const std::lock_guard lock(tables_->mutex);
    std::int64_t done = record(operation, "redrive", filter.destination).events;
    const auto changed = change(operation, filter, most, [&](UndeliveredRow& row) {
      const auto pause = per_second > 0 ? std::chrono::milliseconds(1'000 * done++ / per_second) : 0ms;
      row.row.standing = Standing::retrying;
      row.row.blocks = row.row.key != 0;
      row.row.attempts = 0;
      row.row.crashes = 0;
      row.due = tables_->clock.steady() + pause;
      ++row.redrives;
    });
    return changed;
  }

  std::int64_t dismiss(const Operation& operation, const UndeliveredFilter& filter, int most) override {
    const std::lock_guard lock(tables_->mutex);
    record(operation, "dismiss", filter.destination);
    return change(operation, filter, most, [&](UndeliveredRow& row) {
      row.row.standing = Standing::dismissed;
      row.row.blocks = false;
    });
  }

  void edit(const Operation& operation, const std::string& destination, const EventId& id, const Edit& edit) override {
    const std::lock_guard lock(tables_->mutex);
    const auto edited =
        change(operation, {.destination = destination, .ids = {id}}, 1, [&](UndeliveredRow& row) { row.edit = edit; });
    if (edited == 0)
      throw Error(Remedy::fix_input,
                  fmt::format("event {} is neither dead nor held at '{}'", id.to_string(), destination));
    record(operation, "edit", destination);
  }

  void pause(const Operation& operation, const std::string& destination, bool paused) override {
    const std::lock_guard lock(tables_->mutex);
    DestinationRow& row = tables_->destinations[destination];
    row.paused = paused;
    ++row.changes;
    record(operation, paused ? "pause" : "resume", destination);
  }

  Count rewind(const Operation& /*operation*/, const std::string& /*destination*/, const RewindTo& /*to*/,
               bool /*dry*/) override {
    throw Error(Remedy::fix_config, "memory: there is nothing to rewind to");
  }

  Count forget(const Operation& /*operation*/, const std::string& /*destination*/, bool /*dry*/) override {
    throw Error(Remedy::fix_config, "memory: nothing is forgotten here");
  }

  std::vector<OperationView> history(int limit) override {
    const std::lock_guard lock(tables_->mutex);
    std::vector<OperationView> list(tables_->operations.rbegin(), tables_->operations.rend());
    if (std::ssize(list) > limit) list.resize(static_cast<std::size_t>(limit));
    return list;
  }

 private:
  template <typename Visit>
  void each(const UndeliveredFilter& filter, const Visit& visit) {
    for (auto& [place, lane] : tables_->lanes)
      for (auto& [seq, row] : lane.undelivered)
        if (matches(filter, place.first, row, event(*tables_, seq)) && !visit(row)) return;
  }

  // An event that was touched by this operation before is not touched again.
  template <typename Touch>
  std::int64_t change(const Operation& operation, const UndeliveredFilter& filter, int most, const Touch& touch) {
    std::int64_t touched = 0;
    each(filter, [&](UndeliveredRow& row) {
      if (row.operation == operation.id || (row.row.standing != Standing::dead && row.row.standing != Standing::held))
        return true;
      touch(row);
      row.operation = operation.id;
      return ++touched < most;
    });
    for (OperationView& view : tables_->operations)
      if (view.id == operation.id) view.events += touched;
    ++tables_->destinations[filter.destination].changes;
    return touched;
  }

  OperationView& record(const Operation& operation, const std::string& kind, const std::string& destination) {
    for (OperationView& view : tables_->operations)
      if (view.id == operation.id) return view;
    return tables_->operations.emplace_back(OperationView{
        .id = operation.id, .kind = kind, .by = operation.by, .destination = destination, .at = tables_->clock.now()});
  }

  TablesPtr tables_;
};

// What is in memory is gone soon enough.
class MemoryUpkeep final : public Upkeep {
 public:
  Cleaned clean(const CleanOptions& /*options*/) override { return {}; }
  Anchored anchor(const Operation& /*operation*/, bool /*dry*/) override { return {}; }
};

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
        if (matches(filter, place.first, row, event(*tables_, seq))) list.events.push_back(view(place.first, seq, row));
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
                         .event = event(*tables_, seq),
                         .since = row.since,
                         .redrives = row.redrives,
                         .edited = row.edit.has_value()};
    if (waits(row.row.standing))
      view.due = tables_->clock.now() + std::chrono::duration_cast<Time::duration>(row.due - tables_->clock.steady());
    return view;
  }

  EventStory story(const EventView& event) const {
    EventStory told{.event = event, .memory = tables_};
    for (const auto& [place, row] : tables_->lanes) {
      if (place.second != event.shard) continue;
      EventAtDestination at{.destination = place.first, .state = "pending"};
      for (const Settled& settled : row.settled) {
        if (settled.seq < event.seq) continue;
        at.state = "published";
        at.settled_at = settled.at;
        break;
      }
      if (const auto here = row.undelivered.find(event.seq); here != row.undelivered.end())
        at.state = to_string(here->second.row.standing);
      if (const auto tried = row.attempts.find(event.seq); tried != row.attempts.end()) at.attempts = tried->second;
      told.destinations.push_back(at);
    }
    return told;
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
      if (undelivered.row.blocks) blocked.insert(undelivered.row.key);
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
                      .troubles = row.troubles};
    for (const auto& [place, lease] : tables_->leases)
      if (lease.owner == id) ++relay.shards_owned;
    status.relays.push_back(std::move(relay));
  }

  TablesPtr tables_;
};

class MemorySchema final : public Schema {
 public:
  SchemaState state() override { return {.version = 1, .newest_known = 1, .oldest_program = 1}; }
  std::string print() const override { return {}; }
  std::vector<int> migrate() override { return {}; }
};

class MemoryStore final : public Store {
 public:
  MemoryStore(MemoryOptions options, const Clock& clock) : tables_(std::make_shared<Tables>(options, clock)) {}

  std::unique_ptr<Schema> schema() override { return std::make_unique<MemorySchema>(); }
  std::unique_ptr<Writer> writer() override { return std::make_unique<MemoryWriter>(tables_); }
  std::unique_ptr<Inspector> inspector() override { return std::make_unique<MemoryInspector>(tables_); }
  std::unique_ptr<Membership> join(const RelayIdentity& relay) override {
    return std::make_unique<MemoryMembership>(tables_, relay);
  }
  std::unique_ptr<Session> connect(const RelayIdentity& relay, const std::string& destination) override {
    return std::make_unique<MemorySession>(tables_, relay.id, destination);
  }
  std::unique_ptr<Follower> follow() override { return std::make_unique<MemoryFollower>(tables_); }
  std::unique_ptr<Operator> operate() override { return std::make_unique<MemoryOperator>(tables_); }
  std::unique_ptr<Upkeep> upkeep() override { return std::make_unique<MemoryUpkeep>(); }
  std::string describe() const override { return "memory"; }

 private:
  TablesPtr tables_;
};

}  // namespace

std::unique_ptr<Store> memory_store(MemoryOptions options, const Clock& clock) {
  return std::make_unique<MemoryStore>(options, clock);
}

}  // namespace waybill
