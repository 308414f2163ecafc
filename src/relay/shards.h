#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "waybill/store.h"

#include "relay/lane.h"

namespace waybill {

// One shard that a carrier holds.
struct Shard {
  //            grant                begun
  //  (unknown) -----> granted ----------------> open
  //                                              | the connection breaks
  //                   broken <-------------------+      begun again: open
  // From every stage it is forgotten when it turns out to be somebody else's.
  enum class Stage : std::uint8_t {
    granted,  // Ours; nothing has been read yet.
    broken,   // Begun, through a connection that broke: to be begun again.
    open,     // Begun; has a lane.
  };
  Lease lease{};
  Stage stage = Stage::granted;
  bool begun = false;             // This relay has had a lane of it before, since it was granted.
  std::optional<Steady> since{};  // When it first had one.
  bool returning = false;         // To be finished, settled and given back.
  bool hungry = true;             // May have more to read. Means nothing while returning.
  bool stale = false;             // A person has changed something: to be finished, settled and begun anew.
  bool at_limit = false;          // As said last.
  Lane* lane = nullptr;           // iff open

  bool ending() const { return returning || stale; }
  bool wants_to_read() const { return hungry && !returning; }
};

// The Shards of one carrier: a state for each, and what the keeper has ordered for them. The keeper's side may be used
// from any thread; an order counts from the carrier's next follow(). The carrier's side is one thread's affair.
class Shards {
 public:
  // --- The keeper's side

  // These are ours. A grant of what is held already, or was under an older term, changes nothing or the term only.
  void grant(const std::vector<Lease>& leases);
  // To be given back when finished. Those that are not held are none of it.
  void give_back(const std::set<std::int32_t>& shards);
  // What is not among `mine` is somebody else's by now, and so is what was ordered for it before. Of the same shard
  // either side may have seen a newer term than the other: we raise it ourselves when a connection has broken.
  void keep_only(std::vector<Lease> mine);
  // There may be something to read.
  void news() noexcept;
  // How often people have changed something in the store (Pulse::changes), and whether nothing is to be published.
  // Returns whether that is news.
  bool note(std::int64_t changes, bool paused);

  std::vector<Lease> held() const;  // Granted, and neither returned nor lost.
  std::vector<Lease> kept() const;  // Held, and not on their way back.
  // Or may one have been opened since it was ordered to be given back?
  bool any_open() const;
  // As last reported, and nothing was ordered since.
  bool waits() const;
  bool idle() const;

  // --- The carrier's side

  struct Followed {
    std::size_t orders = 0;
    std::vector<Shard> forgotten{};  // As they were; their lanes are to be dropped.
  };
  Followed follow();

  // REQUIRES: the shard is held and not open.
  void open(std::int32_t shard, const Lease& lease, Lane& lane);
  // All that are open, or were about to be, have to be begun again. Their lanes are to be dropped before.
  void break_all();
  bool paused() const { return followed_.paused; }
  // An open shard is to be begun as if it had just been granted; returns what it was.
  Shard begin_anew(std::int32_t shard);
  // Not held from now on; returns what it was.
  std::optional<Shard> forget(std::int32_t shard);
  void forget_all();
  void make_all_hungry();

  // Whether everything has been read, and whether there is nothing left to do at all. False for both if something was
  // ordered meanwhile. Returns whether one of them has become true by it.
  bool report(bool waits, bool idle);

  Shard* find(std::int32_t shard);
  auto begin() { return by_number_.begin(); }
  auto end() { return by_number_.end(); }
  auto begin() const { return by_number_.begin(); }
  auto end() const { return by_number_.end(); }
  std::size_t size() const { return by_number_.size(); }

 private:
  struct Orders {
    std::optional<std::vector<Lease>> mine{};  // The oldest: what is granted and to be returned came after it.
    std::map<std::int32_t, Lease> grants{};
    std::set<std::int32_t> returns{};
    bool news = false;
  };
  struct Notes {
    std::optional<std::int64_t> changes{};
    bool paused = false;
  };

  void keep(const std::vector<Lease>& mine, Followed& followed);
  bool take(const Lease& lease, Followed& followed);
  std::size_t make_stale();

  mutable std::mutex mutex_;
  Orders orders_;       // guarded by mutex_
  bool waits_ = false;  // guarded by mutex_
  bool idle_ = false;   // guarded by mutex_
  Notes notes_;         // guarded by mutex_
  Notes followed_;      // The carrier's own: the notes it has followed.
  // Written by the carrier's thread alone; which there are, `lease`, `stage` and `returning` only under mutex_.
  std::map<std::int32_t, Shard> by_number_;
};

}  // namespace waybill
