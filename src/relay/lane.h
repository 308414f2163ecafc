#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "waybill/store.h"
#include "waybill/time.h"

#include "relay/siding.h"

namespace waybill {

// A Lane is one shard of the log on its way to one destination. It is the sequencer: it alone decides which
// event may go next. It holds what was read and not settled yet, keeps at most one event of a key under way,
// and knows how far everything is settled. No I/O, no clock, not thread-safe.
//
// The invariant: an event is handed out only if every earlier event of its key has been delivered, or has ended
// otherwise and the store knows. Since chunks come in the order in which they must go out, first deliveries come in
// order per key.
//
// The cursor never waits for an event that cannot be delivered now: it passes it, and in the same transaction the event
// gets a row in `undelivered`. From then on it waits in the lane's Siding.
class Lane {
 public:
  // Names an event of this lane.
  using Position = std::uint64_t;

  struct Options {
    bool begun_again = false;         // This relay had it before, and is alive.
    std::optional<Steady> since{};    // Since when this relay works on it; none: since now.
    bool announce = false;            // Every attempt is told the store before it begins,
    std::size_t announced_max = 100;  // of so many at once.
    std::int64_t blocked_per_key_max = 500'000;
    std::int64_t blocked_max = 1'000'000;
    Steady::duration slow{std::chrono::seconds(1)};  // An event under way for so long is passed.
  };

  Lane(const Opened& opened, std::uint32_t serial, Options options, Steady now);

  const Lease& lease() const { return lease_; }
  std::uint32_t serial() const { return serial_; }
  bool begun_again() const { return options_.begun_again; }

  // What to do with an event that is read.
  struct Decision {
    bool publish = true;
    std::optional<Steady> due{};  // Not before then: the event leaves its key's order.
  };

  // Takes the chunk that follows. `decide(event)` is asked once for each event, in order.
  template <typename Decide>
  void append(Chunk chunk, const Decide& decide);

  // Undelivered events that are due: what is to be fetched, and what came of it.
  std::vector<Wanted> wanted(int events_max);
  void take_in(const Fetched& fetched, std::span<const Wanted> wanted, Steady now);

  // The next event that may go, or nothing. The caller submits it and reports on it.
  // `fresh_first`: what has not been tried yet goes before what is undelivered.
  std::optional<Position> next(Steady now, bool fresh_first = false);
  // One that an earlier relay was sending when it died, or whose event is missing: to be reported on as if it had been
  // handed out.
  std::optional<Position> next_suspect();
  bool missing(Position position);
  bool ready() const { return !ready_.empty() || siding_.ready(); }
  bool announcing() const { return siding_.announcing(); }
  bool wants() const { return siding_.wants(); }

  // What must go alone; see Siding.
  bool wants_alone() const { return siding_.wants_alone(); }
  bool alone_announced() const { return siding_.alone_announced(); }
  bool one_is_alone() const { return siding_.one_is_alone(); }
  void announce_alone(Steady now) { siding_.announce_alone(now); }
  std::optional<Position> next_alone();
  void acquit() { siding_.acquit(); }

  EventView& event(Position position);
  // Has the cursor passed it?
  bool passed(Position position) const { return !in_lane(position); }
  // How it stands in `undelivered`, or would; attempts are those that have begun.
  Undelivered row(Position position);
  // Keeps `memory`, in which the event's payload is, as long as the event.
  void keep(Position position, std::shared_ptr<const void> memory);

  // The destination is away: what was announced is taken back, until it is to be handed out after all.
  void park() { siding_.park(); }

  // What became of an event that was handed out.
  void finish(Position position);       // It is delivered.
  void again_first(Position position);  // It is to be handed out again before all others.
  void put_back(Position position, const Undelivered& row,
                Steady now);         // It stands like this: to be retried, or ended.
  void bury_key(std::uint64_t key);  // And all that wait behind it are dead.
  void add_attempt(Attempt attempt) { siding_.add_attempt(std::move(attempt)); }

  // Lets events go whose time has come; returns when to look again, if at all.
  std::optional<Steady> release_due(Steady now);

  // How soon something is to be saved.
  enum class Urgency { none, whenever, soon, at_once };
  Urgency urgency(Steady now) const;
  // May the cursor pass the first event, though it is not finished? It does when that is saved.
  bool can_pass(Steady now) const;
  // What is to be saved, if anything. To be followed by saved(), or by the end of the lane.
  std::optional<Settlement> settle(Steady now);
  void saved();

  // Hands out no more. What lies before something delivered is passed, so that whoever reads on sends nothing twice;
  // the rest is theirs.
  void abandon_rest();

  std::size_t unsettled() const { return entries_.size(); }
  std::size_t under_way() const { return under_way_ + siding_.under_way(); }
  std::size_t bytes() const { return bytes_ + siding_.bytes(); }
  // Has it come to a stop because too many of its events are blocked?
  bool at_limit() const;
  std::int64_t blocked() const { return siding_.events(); }

 private:
  static constexpr Position none = ~Position{0};
  static constexpr Position in_siding = Position{1} << 39U;

  enum class State : std::uint8_t { waiting, under_way, put_back, finished };

  struct Entry {
    EventView* event = nullptr;
    std::uint64_t key = 0;
    Position next_of_key = none;
    Steady time{};                          // When it was handed out; scheduled or put back: when it is due.
    std::shared_ptr<const void> payload{};  // If that was loaded by itself.
    std::int32_t attempts = 0;
    State state = State::waiting;
    bool scheduled = false;
    bool in_doubt = false;
  };

  // A chunk and where its events end.
  struct Stretch {
    Chunk chunk;
    Position end = 0;
  };

  // The events of a key that are in the lane and not finished, in order.
  struct Chain {
    Position first = none;
    Position last = none;
  };

  Entry& entry(Position position) { return entries_[position - first_]; }
  const Entry& entry(Position position) const { return entries_[position - first_]; }
  bool in_lane(Position position) const { return position >= first_ && position < first_ + entries_.size(); }
  void add(EventView& event, const Decision& decision);
  void queue_behind_its_key(Position position);
  void close_stretch(Chunk chunk);

  bool announces() const { return options_.announce || careful_left_ > 0; }
  bool has_room(std::uint64_t key) const;
  std::optional<Steady> first_passable_at() const;
  void pass_first(Steady now);
  void unchain(const Entry& entry);
  Siding::Item item_of(const Entry& entry, Undelivered row) const;
  void settle_prefix(Steady now, bool passing);
  void answered(Position position);
  void flow_again(std::span<const std::uint64_t> keys);
  void be_careful_no_more();
  Siding::Number number_of(Position position) const;
  bool in_doubt(const EventView& event) const { return in_doubt_until_ && event.created_at <= *in_doubt_until_; }

  Lease lease_;
  std::uint32_t serial_;
  const Options options_;
  const std::optional<Time> in_doubt_until_;  // See Opened.
  Siding siding_;

  std::deque<Entry> entries_;  // unsettled events, in order
  Position first_ = 0;         // position of entries_.front()
  std::deque<std::shared_ptr<Stretch>> stretches_;
  std::size_t bytes_ = 0;
  std::size_t under_way_ = 0;
  std::set<Position> announced_;  // passed as such, and unanswered
  std::size_t careful_left_;      // events still to go one by one, since relays have died here
  std::deque<Position> ready_;
  std::unordered_map<std::uint64_t, Chain> chains_;
  std::map<Position, Undelivered> put_back_;             // of entries that are put back
  std::unordered_map<Position, Siding::Number> passed_;  // under way when the cursor passed them
  struct Delayed {
    Steady time;
    Position position;
    bool operator>(const Delayed& other) const { return time > other.time; }
  };
  std::priority_queue<Delayed, std::vector<Delayed>, std::greater<>> delayed_;

  Settlement settled_;  // how far, and how many since it was saved
  bool moved_ = false;  // settled_ is not saved yet
  bool abandoned_ = false;
  Position delivered_end_ = 0;  // one after the last delivered
};

template <typename Decide>
void Lane::append(Chunk chunk, const Decide& decide) {
  for (EventView& event : chunk.events) add(event, decide(event));
  close_stretch(std::move(chunk));
}

}  // namespace waybill
