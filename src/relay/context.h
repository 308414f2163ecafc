#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "waybill/log.h"
#include "waybill/relay.h"
#include "waybill/store.h"
#include "waybill/time.h"

#include "base/waker.h"

namespace waybill {

// Of all a relay's carriers one at a time has an event go alone: should the relay die, that counts against this event,
// whatever the other destinations are at. In the order in which they have asked. Thread-safe.
class Solo {
 public:
  // Is it the turn of `who`? If not, it is woken when it is.
  bool take(Waker& who) {
    const std::lock_guard lock(mutex_);
    if (std::find(queue_.begin(), queue_.end(), &who) == queue_.end()) queue_.push_back(&who);
    return queue_.front() == &who;
  }
  // It is over, or cannot be now.
  void give(Waker& who) {
    const std::lock_guard lock(mutex_);
    if (std::erase(queue_, &who) > 0 && !queue_.empty()) queue_.front()->wake();
  }

 private:
  std::mutex mutex_;
  std::deque<Waker*> queue_;  // guarded by mutex_
};

// How often a relay tries destinations that are away, all its carriers together: where a thousand are lost at once,
// they do not all connect at once when they are back. Thread-safe.
class Tries {
 public:
  static constexpr int at_once = 50;
  static constexpr std::chrono::milliseconds apart{20};  // after these

  // Books the next one; returns when it may be made.
  Steady book(Steady now) {
    const std::lock_guard lock(mutex_);
    const Steady slot = std::max(next_, now - (at_once - 1) * apart);
    next_ = slot + apart;
    return std::max(slot, now);
  }

 private:
  std::mutex mutex_;
  Steady next_{};  // guarded by mutex_
};

// What all parts of one relay work with. Lives as long as the relay.
struct RelayContext {
  Store& store;
  const RelayOptions options;
  RelayIdentity identity;  // Another one for every run; changes only while no thread runs.
  const Log log;
  const Clock& clock;
  mutable Solo solo{};
  mutable Tries tries{};
};

// Until when this relay may believe that its leases are its own, by Clock::since_boot(). Written by the Keeper, read by
// the Carriers. The keeper tells the carriers what they have lost before it extends the trust; a carrier reads the
// trust before it follows its orders, and not again until it follows the next ones. So nobody trusts a lease on the
// strength of a heartbeat that has shown it to be lost.
class Trust {
 public:
  void extend(Steady until) { until_.store(until.time_since_epoch().count(), std::memory_order_release); }
  Steady until() const { return Steady(Steady::duration(until_.load(std::memory_order_acquire))); }

 private:
  std::atomic<Steady::rep> until_{0};
};

// How the relay is, for those who look from outside, and what they have to say. Written by the Keeper and where it is
// started and stopped, read by anybody.
class Vitals {
 public:
  void start(Steady now) {
    store_up_ = false;
    beat_ = now.time_since_epoch().count();
    turned(now);
    running_ = true;
  }
  void stop() { running_ = false; }
  void turned(Steady now) { turn_ = now.time_since_epoch().count(); }
  void beat(Steady now) {
    beat_ = now.time_since_epoch().count();
    store_up_ = true;
  }
  void store_away() { store_up_ = false; }
  void report(std::string trouble) {
    const std::lock_guard lock(mutex_);
    trouble_ = std::move(trouble);
  }
  // What was reported last.
  std::string trouble() const {
    const std::lock_guard lock(mutex_);
    return trouble_;
  }

  RelayHealth read(Steady now, std::chrono::milliseconds lease) const {
    const auto since = [&](Steady::rep moment) {
      return std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch() - Steady::duration(moment));
    };
    return {.running = running_,
            .store_up = store_up_,
            .since_beat = since(beat_),
            .since_turn = since(turn_),
            .lease = lease};
  }

 private:
  std::atomic<bool> running_{false};
  std::atomic<bool> store_up_{false};
  std::atomic<Steady::rep> beat_{0};
  std::atomic<Steady::rep> turn_{0};
  mutable std::mutex mutex_;
  std::string trouble_;  // guarded by mutex_
};

}  // namespace waybill
