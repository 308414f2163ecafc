#pragma once

#include <stop_token>

#include "waybill/log.h"
#include "waybill/store.h"

#include "app/notify.h"

namespace waybill::app {

struct StoreWait {
  bool migrate = false;  // Bring the tables up to date.
  bool wait = true;      // False: a store that is away is an error at once.
};

// Makes the store ready: its tables are there and known to this program. While the store is away it tries again, at the
// pace of a running relay, and tells the log and systemd. False: `stop` came first. Throws Error(fix_config) for what
// trying again does not mend, such as a wrong password, an unknown database or missing tables.
bool prepare_store(Store& store, const StoreWait& options, const Notifier& notifier, const Log& log,
                   const std::stop_token& stop);

}  // namespace waybill::app
