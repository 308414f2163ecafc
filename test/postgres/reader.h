#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "waybill/error.h"
#include "waybill/store.h"

#include "base/assert.h"

namespace waybill {

// A relay's part that reads, with every lease of one destination that is free. It keeps account of what it has read and
// settled, as the relay's lanes do.
class Reader {
 public:
  struct Seen {
    std::int32_t shard;
    std::int64_t seq;
    std::string name;  // the payload, without quotes
    std::string key;
  };

  explicit Reader(Store& store, std::string destination = "out", Start start = Start::beginning, Match rules = {})
      : relay{.id = EventId::make().to_string(), .name = "test", .rules = {{destination, std::move(rules)}}},
        destination_(std::move(destination)),
        membership(store.join(relay)),
        session(store.connect(relay, destination_)) {
    leases = membership->take(membership->beat(std::span(&destination_, 1)).free);
    opened = session->open(leases, start, false);
    for (const Opened& each : opened) shards.push_back(each.lease.shard);
  }

  // One exchange that settles nothing; what came, in the order in which it came. `more`: something may follow.
  std::vector<Seen> exchange(int limit) { return take(session->exchange({}, {shards, limit, std::size_t{1} << 30U})); }

  // Everything there is now.
  std::vector<Seen> read_all(int limit = 100) {
    std::vector<Seen> all;
    do {
      const auto some = exchange(limit);
      all.insert(all.end(), some.begin(), some.end());
    } while (more);
    return all;
  }

  std::string names(int limit = 100) { return names_of(read_all(limit)); }

  static std::string names_of(const std::vector<Seen>& events) {
    std::string text;
    for (const Seen& event : events) text += event.name;
    return text;
  }

  // What was read of a shard and is not settled.
  std::size_t unsettled(std::int32_t shard) {
    std::size_t count = 0;
    for (const Unsettled& chunk : chunks_[shard]) count += chunk.events.size();
    return count;
  }

  // Settles the first `counts[shard]` events of each of these shards, in one exchange. Returns what was lost.
  std::vector<std::int32_t> settle(const std::map<std::int32_t, std::size_t>& counts) {
    std::vector<Settlement> settlements;
    for (const auto& [shard, count] : counts)
      if (const auto settlement = advance(shard, count)) settlements.push_back(*settlement);
    return settlements.empty() ? std::vector<std::int32_t>{} : session->exchange(settlements, {}).lost;
  }

  std::vector<std::int32_t> settle_all() {
    std::map<std::int32_t, std::size_t> counts;
    for (const std::int32_t shard : shards) counts[shard] = unsettled(shard);
    return settle(counts);
  }

  // Settles all that was read of a shard, with these rows of `undelivered`. Returns what was lost.
  std::vector<std::int32_t> pass(std::int32_t shard, const std::vector<Undelivered>& rows) {
    Settlement settlement = advance(shard, unsettled(shard)).value_or(change(shard));
    settlement.undelivered = rows;
    return session->exchange(std::span(&settlement, 1), {}).lost;
  }

  // A settlement that leaves the cursor where it is.
  Settlement change(std::int32_t shard) const { return {.shard = shard, .term = term(shard)}; }

  // Undelivered events of a key, as names.
  std::string fetched(std::uint64_t key, std::int32_t shard = 0) {
    const Wanted wanted{.shard = shard, .key = key, .events_max = 1'000};
    last_fetched = session->fetch(std::span(&wanted, 1));
    std::string text;
    for (const auto& [row, event, missing] : last_fetched.items)
      if (!missing && !event.payload_deferred) text += event.payload.substr(1, event.payload.size() - 2);
    return text;
  }

  // Ends cleanly: another one may go on at once.
  void leave() {
    session->release(leases);
    membership->leave();
  }

  const RelayIdentity relay;

 private:
  struct Unsettled {
    std::shared_ptr<const Window> window;
    bool ends_window;
    std::deque<Seen> events;
  };

  std::vector<Seen> take(Reading reading) {
    EXPECT_TRUE(reading.lost.empty());
    more = false;
    std::vector<Seen> seen;
    for (const Chunk& chunk : reading.chunks) {
      more = more || !chunk.events.empty() || !chunk.ends_window;
      Unsettled unsettled{.window = chunk.window, .ends_window = chunk.ends_window, .events = {}};
      for (const EventView& event : chunk.events) {
        const auto name = event.payload.size() > 1 ? event.payload.substr(1, event.payload.size() - 2) : "";
        unsettled.events.push_back({chunk.shard, event.seq, std::string(name), std::string(event.key)});
        seen.push_back(unsettled.events.back());
      }
      chunks_[chunk.shard].push_back(std::move(unsettled));
    }
    return seen;
  }

  std::optional<Settlement> advance(std::int32_t shard, std::size_t count) {
    std::optional<Settlement> settlement;
    auto& chunks = chunks_[shard];
    while (!chunks.empty()) {
      Unsettled& chunk = chunks.front();
      if (!settlement && (count > 0 || (chunk.events.empty() && chunk.ends_window)))
        settlement = Settlement{.shard = shard, .term = term(shard)};
      while (count > 0 && !chunk.events.empty()) {
        settlement->window = chunk.window;
        settlement->seq = chunk.events.front().seq;
        settlement->window_done = false;
        ++settlement->count;
        settled.push_back(chunk.events.front());
        chunk.events.pop_front();
        --count;
      }
      if (!chunk.events.empty()) break;
      if (chunk.ends_window) {
        WAYBILL_ASSERT(settlement);
        settlement->window = chunk.window;
        settlement->window_done = true;
      }
      chunks.pop_front();
    }
    return settlement;
  }

  std::int64_t term(std::int32_t shard) const {
    for (const Lease& lease : leases)
      if (lease.shard == shard) return lease.term;
    return 0;
  }

  const std::string destination_;
  std::map<std::int32_t, std::deque<Unsettled>> chunks_;

 public:
  std::unique_ptr<Membership> membership;
  std::unique_ptr<Session> session;
  std::vector<Lease> leases;
  std::vector<Opened> opened;
  std::vector<std::int32_t> shards;
  Fetched last_fetched{};
  bool more = false;
  std::vector<Seen> settled;  // in the order of settling
};

// What the error says, if it cannot be read.
inline std::string why_unreadable(Store& store) {
  try {
    Reader(store).leave();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace waybill
