#include "store/memory/memory_store.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <mutex>
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
};

struct RelayRow {
  std::string name;
  Steady alive_until{};
  Time last_seen{};
  std::vector<std::string> destinations;
};

struct Settled {
  std::int64_t seq = 0;
  Time at{};
};

struct LaneRow {
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

  std::vector<Lease> open(std::span<const Lease> leases, Start start, bool again) override {
    const std::lock_guard lock(tables_->mutex);
    std::vector<Lease> opened;
    for (Lease lease : leases) {
      if (!tables_->owns(relay_, lease)) continue;
      if (again) lease.term = ++tables_->leases[{destination_, lease.shard}].term;
      const auto [row, fresh] = tables_->lanes.try_emplace({destination_, lease.shard});
      if (fresh && start == Start::now) row->second.start_seq = tables_->last_seq();
      read_upto_[lease.shard] = row->second.seq();
      opened.push_back(std::move(lease));
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

  std::shared_ptr<const void> load(EventView& /*event*/) override { return {}; }

  void release(std::span<const Lease> leases) override {
    const std::lock_guard lock(tables_->mutex);
    for (const Lease& lease : leases)
      if (tables_->owns(relay_, lease)) tables_->leases[{destination_, lease.shard}].owner.clear();
  }

 private:
  struct Upto final : Window {};

  bool settle(const Settlement& settlement) {
    if (!tables_->owns(relay_, {destination_, settlement.shard, settlement.term})) return false;
    if (settlement.count == 0) return true;
    LaneRow& row = tables_->lanes.at({destination_, settlement.shard});
    WAYBILL_ASSERT(settlement.seq > row.seq());
    row.settled.push_back({.seq = settlement.seq, .at = tables_->clock.now()});
    return true;
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
                                  .destinations = {destinations.begin(), destinations.end()}};
    Pulse pulse{.next_expiry = relay_.lease, .news = look()};
    for (const std::string& destination : destinations) {
      pulse.shards[destination] = tables_->options.shards;
      for (std::int32_t shard = 0; shard < tables_->options.shards; ++shard) sort_lease(destination, shard, pulse);
    }
    for (const auto& [id, row] : tables_->relays) count_relay(id, row, pulse);
    return pulse;
  }

  std::vector<Lease> take(std::span<const Lease> free) override {
    const std::lock_guard lock(tables_->mutex);
    std::vector<Lease> won;
    for (const Lease& lease : free) {
      LeaseRow& row = tables_->leases[{lease.destination, lease.shard}];
      if (row.term != lease.term || tables_->alive(row.owner)) continue;
      row = {.term = row.term + 1, .owner = relay_.id};
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
    const auto like = [](const std::string& pattern, std::string_view text) {
      return pattern.empty() || matches(pattern, text);
    };
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

  std::vector<Finding> examine() override { return {}; }

 private:
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
      told.destinations.push_back(at);
    }
    return told;
  }

  void add_lane(const std::string& destination, std::int32_t shard, const LaneRow& row, StoreStatus& status) {
    if (status.destinations.empty() || status.destinations.back().name != destination)
      status.destinations.push_back({.name = destination});
    DestinationStatus& entry = status.destinations.back();
    ++entry.shards;
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
                      .destinations = row.destinations};
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
  std::string describe() const override { return "memory"; }

 private:
  TablesPtr tables_;
};

}  // namespace

std::unique_ptr<Store> memory_store(MemoryOptions options, const Clock& clock) {
  return std::make_unique<MemoryStore>(options, clock);
}

}  // namespace waybill
