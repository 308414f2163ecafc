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

namespace waybill {

// A Siding is where the events of one lane wait that the cursor has passed undelivered: the table `undelivered`, as
// far as it must be in memory. Of a blocked key it knows how many events wait, not which: they are fetched when the
// first is due. No I/O, no clock, not thread-safe.
//
// The invariants: of a key one event at most is under way, in the order of seq. After an end other than `delivered` the
// next of the key goes only when the store knows. A key blocks until the store, knowing all there is to know, has none
// of its events left. That is asked, not counted: people may have redriven others of the key meanwhile.
//
//   resting ──due──▶ wanted ──fetched──▶ going ──all ended──▶ unsaved ──saved──▶ wanted ──nothing fetched──▶ free
//      ▲                                   │
//      └────────────── put back ───────────┘
//
// What the store does not know yet is told by tell(); it knows when saved() is called, right after.
class Siding {
 public:
  using Number = std::uint64_t;  // Names an event that is in memory.

  struct Item {
    EventView event{};
    Undelivered row{};                     // As the store has it, or will when told.
    std::optional<Steady> due{};           // It was fetched too early.
    bool missing = false;                  // The store has no such event; see Fetched.
    std::shared_ptr<const void> memory{};  // What the event points into.
  };

  // As the store has it. `since`: since when this relay works on the shard.
  void open(const Opened& opened, Steady since, Steady now);
  // Whether every attempt is told before it begins, not only that at an event which has failed before.
  void announce_every(bool every) { announce_ = every; }

  // Must events of this key wait?
  bool blocks(std::uint64_t key) const { return key != 0 && keys_.contains(key); }
  // Must they only until what is to be told is saved?
  bool about_to_free(std::uint64_t key) const;

  // --- What the lane sends here: the cursor passes an event, and
  void add(const Undelivered& row, Steady now);  // it waits here, or has ended;
  Number add_under_way(Item item);               // an attempt is under way;
  Number add_announced(Item item);               // an attempt is to begin when that is saved.

  // --- What is to be fetched.
  void want_due(Steady now);
  std::vector<Wanted> wanted(std::int32_t shard, int events_max);
  void take_in(const Fetched::Item& fetched, std::shared_ptr<const void> memory, Steady now);
  // All that came of `wanted` is taken in. Returns the keys that block no more.
  std::vector<std::uint64_t> taken_in(std::int32_t shard, std::span<const Wanted> wanted,
                                      std::optional<Steady> next_due);

  // --- What may go: in the usual way; and what is to be judged without an attempt: what an earlier relay did not
  // survive, and what is missing.
  std::optional<Number> next();
  std::optional<Number> next_suspect() { return next_of(suspects_); }

  // --- What goes alone, since an attempt at it was not survived (trial.h): when its control is over and when asked to,
  // one is announced; it may go when that is saved.
  bool wants_alone() const { return !doubtful_.empty() || alone_; }
  bool alone_announced() const { return alone_.has_value(); }
  // Does the store know of one that goes alone, or will when told? Also when it is over, until that is saved.
  bool one_is_alone() const { return alone_ || alone_under_way_ || alone_over_; }
  void announce_alone(Steady now);
  std::optional<Number> next_alone();
  // The relay ends of itself, so it was not killed by the one that is still under way: that is taken back.
  void acquit();
  // The destination is away. What was announced and not handed out is taken back; it is announced again before it goes.
  void park();
  bool ready() const { return !ready_.empty() || !parked_.empty(); }
  Item& item(Number number) { return items_.at(number); }
  // Keeps `memory`, in which the event's payload is, as long as the event.
  void keep(Number number, std::shared_ptr<const void> memory);

  // --- What became of it.
  void finish(Number number);                                        // It is delivered.
  void again_first(Number number);                                   // It is to be handed out again before all others.
  void put_back(Number number, const Undelivered& row, Steady now);  // It stands like this now.
  void bury_key(std::uint64_t key);                                  // All of the key that wait here are dead.
  void add_attempt(Attempt attempt) { attempts_.push_back(std::move(attempt)); }

  // Adds to a settlement what the store is to know.
  void tell(Settlement& settlement);
  bool to_be_told() const { return !told_.empty() || !rows_.empty() || !delivered_.empty() || !attempts_.empty(); }
  bool to_be_told_at_once() const { return announcing() || alone_over_ || alone_late_; }
  bool announcing() const { return !announcing_.empty(); }
  // Returns the keys that block no more.
  std::vector<std::uint64_t> saved();

  // Takes back what was announced and not handed out.
  void abandon_rest();

  std::optional<Steady> next_due() const;
  bool wants() const { return !wanted_.empty(); }
  std::size_t under_way() const { return under_way_; }
  std::int64_t events() const { return events_; }  // that block
  std::int64_t events_of(std::uint64_t key) const;
  std::size_t bytes() const { return bytes_; }

 private:
  struct Key {
    std::int64_t events = 0;       // that block, as far as we know; what the store has now or will have when told
    std::int64_t ended = 0;        // of them, those whose end is not saved yet
    std::int64_t after = 0;        // the last of those
    std::deque<Number> fetched{};  // in order; the first may be under way
    bool wanted = false;
    bool asked = false;  // Somebody else's rows may have come, or be there: counting our own will not do.
    bool flows = false;  // one was delivered: then more may be fetched at once
    bool goes_on_when_saved = false;
  };
  struct Due {
    Steady time;
    std::uint64_t key;
    bool operator>(const Due& other) const { return time > other.time; }
  };

  Number admit(Item item);
  void forget(Number number);
  void forget_fetched(Key& key);
  void let_go(Number number);
  void announce(Number number, Undelivered::Sending how);
  void count_at_least(Key& key, std::int64_t events);
  void rest_until(Steady time, std::uint64_t key);
  void want(std::uint64_t number);
  void go_on_with(std::uint64_t number);
  void tell_row(const Undelivered& row);
  void take_back(Undelivered& row);
  void not_under_way(Number number);
  std::optional<Number> next_of(std::deque<Number>& queue);
  const Item* on_trial() const;
  void end_trial();

  bool announce_ = false;
  bool abandoned_ = false;
  std::unordered_map<std::uint64_t, Key> keys_;
  std::unordered_map<Number, Item> items_;
  Number last_number_ = 0;
  std::set<std::int64_t> keyless_;             // seq of those without a key that are in memory, or not saved
  std::vector<std::int64_t> keyless_leaving_;  // of them, those that are gone when saved
  std::optional<Steady> keyless_due_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<Due> due_when_saved_;
  std::deque<std::uint64_t> wanted_;  // keys; 0: those without
  std::deque<Number> ready_;
  std::deque<Number> parked_;
  Steady since_{};
  std::multimap<Steady, Number> in_control_;  // to go alone, by when they may
  std::deque<Number> doubtful_;               // those that may now, not announced
  std::optional<Number> alone_;               // the one of them that is,
  std::optional<Number> alone_under_way_;
  bool alone_over_ = false;  // and then was, as far as we know
  Steady trial_end_{};       // of the one that is on trial
  bool alone_late_ = false;  // it is on trial no more; the store does not know
  std::deque<Number> suspects_;
  std::vector<Number> announcing_;  // may go when saved
  std::size_t under_way_ = 0;
  std::int64_t events_ = 0;
  std::size_t bytes_ = 0;

  // To be told.
  std::vector<Undelivered> rows_;
  std::vector<std::int64_t> delivered_;
  std::vector<std::uint64_t> buried_keys_;
  std::vector<Attempt> attempts_;
  std::set<std::uint64_t> told_;  // the keys concerned
};

}  // namespace waybill
