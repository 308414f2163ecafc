#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "waybill/event.h"
#include "waybill/relay.h"
#include "waybill/sink.h"
#include "waybill/time.h"

#include "base/metrics.h"
#include "relay/breaker.h"

namespace waybill {

// What every store takes as a trouble's text: a reason that it refused would cost the relay its heartbeat. Cut between
// characters, not within one.
std::string presentable(std::string text);

// What a carrier has done and how its destination stands, for those who look from outside. Counting is the carrier's
// affair, and takes neither lock nor memory; reading is anybody's.
class Tally {
 public:
  // `event`: none if it has been let go of meanwhile.
  void delivered(const EventView* event, Time now) noexcept;
  void repeated() noexcept { repeated_.add(); }
  void failed(Outcome::Kind kind) noexcept { failed_[static_cast<std::size_t>(kind)].add(); }
  void skipped() noexcept { skipped_.add(); }
  // Returns whether it is the first.
  bool unmatched() noexcept {
    unmatched_.add();
    return unmatched_.value() == 1;
  }
  void dead() noexcept { dead_.add(); }
  void expired(bool in_doubt) noexcept { (in_doubt ? expired_unknown_ : expired_).add(); }
  // Costs nothing while the destination is there.
  void show(const Breaker& breaker, const Clock& clock);

  RelayCounts counts(std::size_t leases) const;
  // Why the breaker is open; empty if it is not.
  std::string trouble() const;

 private:
  Counter delivered_;
  Counter repeated_;
  Counter skipped_;
  Counter unmatched_;
  Counter dead_;
  Counter expired_;
  Counter expired_unknown_;
  std::array<Counter, 5> failed_;  // by Outcome::Kind
  Histogram latency_;
  std::atomic<std::int64_t> lag_us_{0};

  Steady shown_next_try_{};  // the carrier's own, as is:
  bool shown_away_ = false;
  mutable std::mutex mutex_;
  BreakerState breaker_;  // guarded by mutex_
};

}  // namespace waybill
