#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "waybill/error.h"
#include "waybill/sink.h"

#include "base/waker.h"
#include "relay/breaker.h"
#include "relay/context.h"
#include "relay/lanes.h"

namespace waybill {

// A Carrier moves the events of one destination: claim, publish, settle, for every shard it was granted.
// step(), wait() and close() are one thread's affair; the others may be called from any thread.
class Carrier {
 public:
  // `keeper` is woken when the carrier has nothing left to do.
  Carrier(const RelayContext& context, const Trust& trust, Waker& keeper, DestinationOptions destination,
          std::unique_ptr<Sink> sink);

  const std::string& name() const { return destination_.name; }

  // The keeper's orders, followed at the next step. What is given back is finished and settled first; what is
  // not among `mine` any more is dropped at once, since it is somebody else's by now.
  void grant(const std::vector<Lease>& leases);
  void give_back(const std::set<std::int32_t>& shards);
  void keep_only(std::vector<Lease> mine);
  std::vector<Lease> held() const;  // Granted, and neither returned nor lost.

  // There may be something to read.
  void news() noexcept;
  // Events read so far: what tells the keeper that its news were good.
  std::uint64_t read() const { return read_.load(std::memory_order_relaxed); }
  // Has everything been read that it knows of, so that only news would make it read again? What was read may still be
  // under way, or wait to be settled.
  bool waits() const { return waits_.load(std::memory_order_acquire); }
  // Is nothing left to do but to wait for news?
  bool idle() const { return idle_.load(std::memory_order_acquire); }
  RelayCounts counts() const;

  // One turn without waiting; returns how much was done. Error(fix_config) if only a person can help.
  std::size_t step();
  // Waits until there is something to do, at most until `deadline`.
  void wait(Steady deadline);
  void close(Steady deadline);

 private:
  std::size_t follow_orders();
  std::size_t connect(Steady now);
  std::size_t open(std::vector<Lease> leases, bool again);
  void drop_connection(const Error& error, Steady now);
  void forget(std::int32_t shard);

  std::size_t move_events();
  std::size_t collect(Steady deadline);
  void apply(const Outcome& outcome, Steady now);
  void retry_later(Lane& lane, Lane::Position position, const Outcome& outcome, Steady now);
  std::size_t publish();
  std::size_t allowance(Steady now);
  bool submit(Lane& lane, Lane::Position position);

  std::size_t exchange(Steady now);
  std::vector<Settlement> due_settlements(Steady now) const;
  Appetite appetite(Steady now) const;
  std::size_t take_in(Reading reading, const Appetite& asked);
  void append(Lane& lane, Chunk chunk);
  std::size_t return_finished_lanes();

  bool nothing_to_read() const;
  bool nothing_left() const;
  Steady next_deadline(Steady latest) const;
  double chance() { return std::uniform_real_distribution<>(0.0, 1.0)(random_); }

  // Constant after construction.
  const RelayContext& context_;
  const Trust& trust_;
  Waker& keeper_;
  const DestinationOptions destination_;

  // The stepping thread's own. The sink comes after the lanes: it goes first, since it may hold events of
  // theirs.
  Lanes lanes_;
  std::set<std::int32_t> hungry_;     // shards that may have more to read
  std::set<std::int32_t> returning_;  // shards to be given back when finished
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<Session> session_;
  std::vector<Lease> to_open_;    // granted, not begun yet
  std::vector<Lease> to_reopen_;  // begun before the connection broke
  Steady next_connect_{};
  int connect_failures_ = 0;
  Breaker breaker_;
  std::vector<Outcome> outcomes_;
  std::size_t first_lane_ = 0;  // Which lane publishes first; it rotates.
  Steady last_read_{};
  Steady::duration read_pause_{};
  Steady last_settle_{};
  std::optional<Steady> next_due_;  // when an event that waits for a time may go
  std::mt19937_64 random_{std::random_device{}()};

  // Shared with the keeper.
  struct Orders {
    std::vector<Lease> grants;
    std::set<std::int32_t> returns;
    std::optional<std::vector<Lease>> mine;
  };
  mutable std::mutex mutex_;
  Orders orders_;            // guarded by mutex_
  std::vector<Lease> held_;  // guarded by mutex_
  Waker waker_;
  std::atomic<bool> news_{true};
  std::atomic<bool> waits_{false};
  std::atomic<bool> idle_{false};
  std::atomic<std::uint64_t> read_{0};
  std::atomic<std::uint64_t> delivered_{0};
  std::atomic<std::uint64_t> skipped_{0};
  std::atomic<std::uint64_t> failed_{0};
};

}  // namespace waybill
