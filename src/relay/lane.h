#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "waybill/store.h"
#include "waybill/time.h"

namespace waybill {

// A Lane is one shard of the log on its way to one destination. It is the sequencer: it alone decides which
// event may go next. It holds what was read and not settled yet, keeps at most one event of a key under way,
// and knows how far everything is settled. No I/O, no clock, not thread-safe.
//
// The invariant: an event is handed out only if every earlier event of its key in this lane is finished.
// Since chunks come in the order in which they must go out, first deliveries come in order per key.
class Lane {
 public:
  // Names an event of this lane.
  using Position = std::uint64_t;

  Lane(Lease lease, std::uint32_t serial) : lease_(std::move(lease)), serial_(serial) {}

  const Lease& lease() const { return lease_; }
  std::uint32_t serial() const { return serial_; }

  // What to do with an event that is read.
  enum class Way { publish, skip };

  // Takes the chunk that follows. `decide(event, due)` is asked once for each event, in order, which Way it
  // goes; for one not to be published before some time it sets `due`: the event then leaves its key's order.
  template <typename Decide>
  void append(Chunk chunk, const Decide& decide);

  // The next event that may go, or nothing. The caller submits it and reports on it.
  std::optional<Position> next();
  EventView& event(Position position) { return *entry(position).event; }
  // Keeps `memory`, in which the event's payload is, as long as the event.
  void keep(Position position, std::shared_ptr<const void> memory);

  // What became of an event that was handed out.
  void finish(Position position);                 // It is done with; the next of its key may go.
  int fail(Position position);                    // Counts a failure; returns how many it has had. Follow up with:
  void again_at(Position position, Steady time);  // hand it out again, then;
  void again_first(Position position);            // hand it out again before all others.

  // Lets events go whose time has come; returns the next time one will, if any.
  std::optional<Steady> release_due(Steady now);

  // Is there progress since saved()? Then how far everything is settled.
  std::optional<Settlement> progress() const;
  // The last progress() is in the store.
  void saved();

  // Forgets what has not been handed out: whoever reads on after the settled part gets it.
  void abandon_rest();

  std::size_t unsettled() const { return entries_.size(); }
  std::size_t under_way() const { return under_way_; }
  std::size_t bytes() const { return bytes_; }
  bool ready() const { return !ready_.empty(); }

 private:
  static constexpr Position none = ~Position{0};

  enum class State : std::uint8_t { waiting, under_way, finished };

  struct Entry {
    EventView* event = nullptr;
    std::uint64_t key = 0;
    Position next_of_key = none;
    std::int32_t failures = 0;
    State state = State::waiting;
  };

  // A chunk and where its events end.
  struct Stretch {
    Chunk chunk;
    Position end = 0;
    std::vector<std::shared_ptr<const void>> kept;
  };

  Entry& entry(Position position) { return entries_[position - first_]; }
  void queue_behind_its_key(Position position);
  void add(EventView& event, std::optional<Steady> due);
  void add_skipped(EventView& event);
  void close_stretch(Chunk chunk);
  void settle_prefix();

  Lease lease_;
  std::uint32_t serial_;

  std::deque<Entry> entries_;  // unsettled events, in order
  Position first_ = 0;         // position of entries_.front()
  std::deque<Stretch> stretches_;
  std::size_t bytes_ = 0;
  std::size_t under_way_ = 0;

  std::deque<Position> ready_;
  std::unordered_map<std::uint64_t, Position> last_of_key_;  // keys with an unfinished event -> the last of them
  struct Delayed {
    Steady time;
    Position position;
    bool operator>(const Delayed& other) const { return time > other.time; }
  };
  std::priority_queue<Delayed, std::vector<Delayed>, std::greater<>> delayed_;

  Settlement settled_;  // how far, and how many since it was saved
  bool moved_ = false;  // settled_ is not saved yet
};

template <typename Decide>
void Lane::append(Chunk chunk, const Decide& decide) {
  for (EventView& event : chunk.events) {
    std::optional<Steady> due;
    if (decide(event, due) == Way::publish) {
      add(event, due);
    } else {
      add_skipped(event);
    }
  }
  close_stretch(std::move(chunk));
}

}  // namespace waybill
