#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "waybill/error.h"
#include "waybill/sink.h"

#include "base/waker.h"
#include "relay/breaker.h"
#include "relay/context.h"
#include "relay/lanes.h"
#include "relay/outage.h"
#include "relay/pace.h"
#include "relay/shards.h"
#include "relay/tally.h"
#include "relay/verdict.h"

namespace waybill {

// A Carrier moves the events of one destination: claim, publish, settle, for every shard it was granted.
// step(), wait() and close() are one thread's affair; the others may be called from any thread.
class Carrier {
 public:
  // `keeper` is woken when the carrier has nothing left to do. One of a relay's carriers counts the events that go
  // nowhere, since all of them see all events.
  Carrier(const RelayContext& context, const Trust& trust, Waker& keeper, DestinationOptions destination,
          std::unique_ptr<Sink> sink, bool counts_unmatched = false);

  const std::string& name() const { return destination_.name; }

  // The keeper's side; see Shards. Orders are followed at the next step.
  void grant(const std::vector<Lease>& leases);
  void give_back(const std::set<std::int32_t>& shards);
  void keep_only(std::vector<Lease> mine) { shards_.keep_only(std::move(mine)); }
  void note(std::int64_t changes, bool paused);
  void news() noexcept;
  std::vector<Lease> held() const { return shards_.held(); }
  std::vector<Lease> kept() const { return shards_.kept(); }

  // Events read so far: what tells the keeper that its news were good.
  std::uint64_t read() const { return read_.load(std::memory_order_relaxed); }
  // Has everything been read that it knows of, so that only news would make it read again? What was read may still be
  // under way, or wait to be settled.
  bool waits() const { return shards_.waits(); }
  // Is nothing left to do but to wait for news?
  bool idle() const { return shards_.idle(); }
  // Is there anything that could yet be finished and settled? Not while the store is away: what was under way then is
  // sent again anyway.
  bool busy() const { return shards_.any_open(); }
  RelayCounts counts() const;
  // What is wrong with the destination; empty: nothing that it knows of.
  std::string trouble() const { return tally_.trouble(); }

  // One turn without waiting; returns how much was done. Error(fix_config) if only a person can help. Any exception
  // other than an Error, of the sink's code or ours, is reported as the destination's trouble, and it starts over.
  std::size_t step();
  // Waits until there is something to do, at most until `deadline`.
  void wait(Steady deadline);
  // Lets go of all shards, without writing anything, and of the connection.
  void abandon();
  // The same, and closes the sink by `deadline`. May be stepped again afterwards, as if it was new.
  void close(Steady deadline);

 private:
  std::size_t follow_orders();
  std::size_t connect();
  std::size_t open(const std::vector<Lease>& leases, bool again);
  void drop_connection(const Error& error);
  void start_over(const std::exception& failure);
  void close_sink(Steady deadline);
  void drop_lanes();
  void acquit();
  void forget(std::int32_t shard);
  void let_go(const Shard& shard);
  bool trusted() const { return context_.clock.since_boot() < trusted_until_; }

  std::size_t move_events();
  void park();
  std::size_t collect(Steady deadline);
  void apply(const Outcome& outcome, Steady now, Time time);
  template <typename Doing>
  void trip(const Doing& doing);
  void finish(Lane& lane, Lane::Position position);
  void judge(Lane& lane, Lane::Position position, const Outcome& outcome, Steady now);
  void judge_after_crash(Lane& lane, Lane::Position position, Steady now);
  void carry_out(Lane& lane, Lane::Position position, const Verdict& verdict, Steady now);
  bool release_due(Steady now);
  std::size_t publish(Steady turn_end);
  std::size_t publish_alone(Lane& lane);
  std::size_t publish_others(Steady now, std::size_t most, Steady turn_end);
  Lane* lane_going_alone() const;
  bool one_is_alone() const;
  bool others_turn();
  bool may_go_alone();
  void give_solo();
  std::size_t allowance(Steady now);
  bool set_aside(Lane& lane, Lane::Position position, Steady now);
  bool submit(Lane& lane, Lane::Position position);
  bool expire(Lane& lane, Lane::Position position);
  void say_expired(Steady now, bool at_once);
  bool may_load() const;
  void load(Lane& lane, Lane::Position position);

  std::size_t fetch();
  void judge_suspects();
  std::size_t exchange();
  void look_around(Steady now);
  Steady::duration settle_interval(const Lane& lane, Steady now) const;
  std::vector<Settlement> due_settlements(Steady now, Steady time);
  void say_if_at_limit(Shard& shard);
  Appetite appetite() const;
  std::size_t take_in(Reading reading, const Appetite& asked, Steady now);
  void append(Lane& lane, Chunk chunk);
  void skip(const EventView& event);
  std::size_t return_finished_lanes();

  bool nothing_to_read() const;
  bool nothing_left() const;
  bool any_hungry() const;
  bool any_ready() const;
  bool any_wanted() const;
  bool any_to_open() const;
  Steady next_deadline(Steady latest) const;
  Steady next_read(Steady latest) const;
  // Now, by the store's clock.
  Time store_time() const { return session_ ? session_->now() : context_.clock.now(); }
  double chance() { return std::uniform_real_distribution<>(0.0, 1.0)(random_); }

  // Constant after construction.
  const RelayContext& context_;
  const Trust& trust_;
  Waker& keeper_;
  const DestinationOptions destination_;
  const bool counts_unmatched_;

  Shards shards_;
  Waker waker_;

  // The stepping thread's own. The sink comes after the lanes: it goes first, since it may hold events of
  // theirs.
  Lanes lanes_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<Session> session_;
  Outage outage_;
  Steady trusted_until_{};  // The trust as it was when the last orders were followed.
  Breaker breaker_;
  bool said_away_ = false;
  bool alone_ = false;         // What is under way must stay alone.
  bool others_first_ = false;  // One has gone alone: it is the others' turn.
  std::vector<Outcome> outcomes_;
  std::size_t first_shard_ = 0;  // Which shard publishes first; it rotates.
  Pace pace_;
  Steady last_look_{};  // when all shards were last made hungry
  Steady last_settle_{};
  std::optional<Steady> next_due_;  // when an event that waits for a time may go
  struct Expired {                  // not logged yet
    std::uint64_t events = 0;
    std::uint64_t in_doubt = 0;
    std::string last{};  // id
    Steady next_log{};
  };
  Expired expired_;
  std::mt19937_64 random_{std::random_device{}()};

  std::atomic<std::uint64_t> read_{0};
  Tally tally_;
};

}  // namespace waybill
