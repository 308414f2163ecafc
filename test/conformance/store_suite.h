#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/error.h"
#include "waybill/store.h"

#include "base/waker.h"
#include "model/validate.h"

// What every store must do (waybill/store.h). An adapter passes it by instantiating the suite:
//   INSTANTIATE_TEST_SUITE_P(Memory, StoreSuite, testing::Values(StoreMaker{"memory", [] { … }}));
namespace waybill {

using namespace std::chrono_literals;

struct StoreMaker {
  std::string name;
  // A fresh, migrated, empty store.
  std::function<std::unique_ptr<Store>()> make;
};

inline void PrintTo(const StoreMaker& maker, std::ostream* out) {
  *out << maker.name;
}

class StoreSuite : public testing::TestWithParam<StoreMaker> {
 protected:
  static Event event(const std::string& name, const std::string& key = "k") {
    Event made;
    made.topic = "t";
    made.key = key;
    made.payload = '"' + name + '"';
    return made;
  }

  void enqueue(const std::vector<Event>& events) {
    const auto writer = store_->writer();
    writer->enqueue(events);
    writer->commit();
  }
  void enqueue(const std::string& name, const std::string& key = "k") { enqueue({event(name, key)}); }

  // A relay's connection with all leases of destination `out`.
  struct Worker {
    std::unique_ptr<Membership> membership;
    std::unique_ptr<Session> session;
    std::vector<Lease> leases;
    std::vector<std::int32_t> shards;
    std::vector<Opened> opened;
  };

  Worker worker(const std::string& destination = "out", Start start = Start::beginning, const Match& rules = {}) {
    const RelayIdentity relay{
        .id = EventId::make().to_string(), .name = "test", .lease = 5s, .rules = {{destination, rules}}};
    Worker made{.membership = store_->join(relay),
                .session = store_->connect(relay, destination),
                .leases = {},
                .shards = {},
                .opened = {}};
    const Pulse pulse = made.membership->beat(std::span(&destination, 1));
    made.leases = made.membership->take(pulse.free);
    made.opened = made.session->open(made.leases, start, false);
    made.leases.clear();
    for (const Opened& opened : made.opened) {
      made.leases.push_back(opened.lease);
      made.shards.push_back(opened.lease.shard);
    }
    return made;
  }

  // Reads until there is nothing left; the chunks, in order.
  static std::vector<Chunk> read_all(Worker& worker, int events_max = 100) {
    std::vector<Chunk> chunks;
    while (true) {
      Reading reading = worker.session->exchange({}, {worker.shards, events_max, 1 << 20});
      bool more = false;
      for (Chunk& chunk : reading.chunks) {
        more = more || !chunk.events.empty() || !chunk.ends_window;
        if (!chunk.events.empty()) chunks.push_back(std::move(chunk));
      }
      if (!more) return chunks;
    }
  }

  static std::string names(const std::vector<Chunk>& chunks) {
    std::string all;
    for (const Chunk& chunk : chunks)
      for (const EventView& event : chunk.events) all += event.payload.substr(1, event.payload.size() - 2);
    return all;
  }

  static Settlement settlement(const Worker& worker, const Chunk& chunk, std::size_t upto) {
    std::int64_t term = 0;
    for (const Lease& lease : worker.leases)
      if (lease.shard == chunk.shard) term = lease.term;
    return {.shard = chunk.shard,
            .term = term,
            .window = chunk.window,
            .seq = chunk.events[upto].seq,
            .window_done = chunk.ends_window && upto + 1 == chunk.events.size(),
            .count = static_cast<std::int64_t>(upto) + 1};
  }

  // A worker that has read these events, all of key k, and passes them with these rows.
  Worker passed(const std::vector<std::string>& names, const std::vector<Undelivered>& rows) {
    for (const std::string& name : names) enqueue(name);
    Worker made = worker();
    const Chunk chunk = read_all(made).at(0);
    Settlement all = settlement(made, chunk, chunk.events.size() - 1);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      all.undelivered.push_back(rows[i]);
      all.undelivered.back().seq = chunk.events[i].seq;
    }
    EXPECT_TRUE(made.session->exchange(std::span(&all, 1), {}).lost.empty());
    return made;
  }

  // All there is to read, settled as if it had been published or skipped.
  static void settle_all(Worker& worker) {
    for (const Chunk& chunk : read_all(worker)) {
      const Settlement all = settlement(worker, chunk, chunk.events.size() - 1);
      EXPECT_TRUE(worker.session->exchange(std::span(&all, 1), {}).lost.empty());
    }
  }

  // The same shard in other hands, after a clean hand-over.
  Worker handed_over(Worker& from) {
    from.session->release(from.leases);
    from.membership->leave();
    return worker();
  }

  // How the shard of key k was found, and its settlements.
  static const Opened& found(const Worker& worker) {
    for (const Opened& opened : worker.opened)
      if (!opened.blocked.empty() || opened.next_due) return opened;
    return worker.opened.front();
  }
  static Settlement change(const Worker& worker, std::int32_t shard) {
    for (const Lease& lease : worker.leases)
      if (lease.shard == shard) return {.shard = shard, .term = lease.term};
    return {};
  }

  static std::string names(const Fetched& fetched) {
    std::string all;
    for (const auto& item : fetched.items) all += item.event.payload.substr(1, item.event.payload.size() - 2);
    return all;
  }

  std::unique_ptr<Store> store_ = GetParam().make();
};

inline std::string store_name(const testing::TestParamInfo<StoreMaker>& info) {
  return info.param.name;
}

}  // namespace waybill
