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
  };

  Worker worker(const std::string& destination = "out", Start start = Start::beginning) {
    const RelayIdentity relay{.id = EventId::make().to_string(), .name = "test", .lease = 5s};
    Worker made{
        .membership = store_->join(relay), .session = store_->connect(relay, destination), .leases = {}, .shards = {}};
    const Pulse pulse = made.membership->beat(std::span(&destination, 1));
    made.leases = made.membership->take(pulse.free);
    made.leases = made.session->open(made.leases, start, false);
    for (const Lease& lease : made.leases) made.shards.push_back(lease.shard);
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

  std::unique_ptr<Store> store_ = GetParam().make();
};

inline std::string store_name(const testing::TestParamInfo<StoreMaker>& info) {
  return info.param.name;
}

}  // namespace waybill
