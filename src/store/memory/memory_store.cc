#include <utility>

#include "waybill/error.h"
#include "waybill/memory.h"

#include "model/event_view.h"
#include "model/key_hash.h"
#include "model/numbered_place.h"
#include "model/validate.h"
#include "store/memory/tables.h"

namespace waybill {
namespace {

void fill_view(StoredEvent& stored, std::int64_t seq, std::int32_t shards, Time now) {
  stored.headers = headers_json(stored.event.headers);
  stored.view = view_of(stored.event, stored.headers, now);
  stored.view.seq = seq;
  const std::uint64_t hash = key_hash(stored.view);
  const std::uint64_t spread = hash != 0 ? hash : static_cast<std::uint64_t>(seq);
  stored.view.shard = static_cast<std::int32_t>(spread % static_cast<std::uint64_t>(shards));
}

class MemoryWriter final : public Writer {
 public:
  explicit MemoryWriter(TablesPtr tables) : tables_(std::move(tables)) {}

  std::vector<EventId> enqueue(std::span<const Event> events) override {
    for (const Event& event : events) {
      validate(event);
      validate_schedule(event, tables_->clock.now());
    }
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

class MemoryFollower final : public Follower {
 public:
  explicit MemoryFollower(TablesPtr tables) : tables_(std::move(tables)) {}

  Page read(std::string_view place, int events_max) override {
    const std::lock_guard lock(tables_->mutex);
    std::int64_t upto =
        place == "now" ? tables_->last_seq() : parse_numbered_place(place, tables_->history, tables_->last_seq());
    Page page{.memory = tables_};
    while (upto < tables_->last_seq() && std::ssize(page.items) < events_max) {
      const EventView& event = tables_->log[static_cast<std::size_t>(upto++)].view;
      page.items.push_back({.event = event, .place = numbered_place(tables_->history, event.seq)});
    }
    page.place = numbered_place(tables_->history, upto);
    page.more = upto < tables_->last_seq();
    return page;
  }

 private:
  TablesPtr tables_;
};

class MemoryUpkeep final : public Upkeep {
 public:
  Cleaned clean(const CleanOptions& /*options*/) override { return {}; }
  Anchored anchor(const Operation& /*operation*/, bool /*dry*/) override { return {}; }
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
  std::unique_ptr<Inspector> inspector() override { return memory_inspector(tables_); }
  std::unique_ptr<Membership> join(const RelayIdentity& relay) override { return memory_membership(tables_, relay); }
  std::unique_ptr<Session> connect(const RelayIdentity& relay, const std::string& destination) override {
    return memory_session(tables_, relay, destination);
  }
  std::unique_ptr<Follower> follow() override { return std::make_unique<MemoryFollower>(tables_); }
  std::unique_ptr<Operator> operate() override { return memory_operator(tables_); }
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
