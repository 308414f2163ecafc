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
  const RelayIdentity identity;
  const Log log;
  const Clock& clock;
};

// Until when this relay may believe that its leases are its own. Written by the Keeper, read by the Carriers.
class Trust {
 public:
  void extend(Steady until) { until_.store(until.time_since_epoch().count(), std::memory_order_release); }
  bool holds(Steady now) const {
    return now.time_since_epoch().count() < until_.load(std::memory_order_acquire);
  }

 private:
  std::atomic<Steady::rep> until_{0};
};

}  // namespace waybill
