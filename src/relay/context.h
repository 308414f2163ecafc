#pragma once

#include <atomic>

#include "waybill/log.h"
#include "waybill/relay.h"
#include "waybill/store.h"
#include "waybill/time.h"

namespace waybill {

// What all parts of one relay work with. Lives as long as the relay.
struct RelayContext {
  Store& store;
  const RelayOptions options;
  RelayIdentity identity;  // Another one for every run; changes only while no thread runs.
  const Log log;
  const Clock& clock;
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

}  // namespace waybill
