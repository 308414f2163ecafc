#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "waybill/memory.h"
#include "waybill/store.h"

#include "base/waker.h"

// What the parts of the in-memory store share: its tables.
namespace waybill {

struct StoredEvent {
  Event event;
  std::string headers;
  EventView view;
};

struct LeaseRow {
  std::int64_t term = 0;
  std::string owner{};
  std::int32_t crashes = 0;
  std::int64_t settled_when_taken = 0;
  std::optional<Time> in_doubt_until{};
};

struct RelayRow {
  std::string name;
  Steady alive_until{};
  Time last_seen{};
  std::vector<std::string> destinations;
  std::vector<Trouble> troubles;
  std::map<std::string, Match> rules;
};

struct Settled {
  std::int64_t seq = 0;
  Time at{};
  std::shared_ptr<const AppliedRules> rules{};  // None: nothing was passed here; a rewind.
};

struct UndeliveredRow {
  Undelivered row{};
  Steady due{};
  Time since{};
  std::int64_t moment = 0;  // of `since`
  std::int32_t redrives = 0;
  std::optional<Edit> edit{};
};

struct DestinationRow {
  std::int64_t changes = 0;
  bool paused = false;
  std::shared_ptr<const AppliedRules> rules{};  // of the relay that came last
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
  const std::string history = EventId::make().to_string().substr(24);  // Of places; a later process has another.
  std::mutex mutex;
  std::deque<StoredEvent> log;  // seq = index + 1
  std::map<std::pair<std::string, std::string>, EventId> dedup;
  std::map<std::string, RelayRow> relays;
  std::map<std::pair<std::string, std::int32_t>, LeaseRow> leases;
  std::map<std::pair<std::string, std::int32_t>, LaneRow> lanes;
  std::map<std::string, DestinationRow> destinations;
  std::vector<OperationView> operations;
  std::map<EventId, std::int64_t> begun;  // operation -> moment
  std::int64_t moments = 0;               // What comes later has a higher one, though no clock has moved meanwhile.
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

inline const EventView& event_of(const Tables& tables, std::int64_t seq) {
  return tables.log[static_cast<std::size_t>(seq) - 1].view;
}

bool like(const std::string& pattern, std::string_view text);
bool matches(const UndeliveredFilter& filter, const std::string& destination, const UndeliveredRow& row,
             const EventView& event);

std::unique_ptr<Session> memory_session(TablesPtr tables, const RelayIdentity& relay, const std::string& destination);
std::unique_ptr<Membership> memory_membership(TablesPtr tables, const RelayIdentity& relay);
std::unique_ptr<Inspector> memory_inspector(TablesPtr tables);
std::unique_ptr<Operator> memory_operator(TablesPtr tables);

}  // namespace waybill
