#include "app/store_wait.h"

#include <condition_variable>
#include <mutex>

#include <fmt/format.h>

#include "waybill/error.h"

#include "app/session.h"
#include "relay/outage.h"

namespace waybill::app {
namespace {

void prepare_schema(Store& store, bool may_migrate, const Log& log) {
  if (may_migrate)
    for (const int version : store.schema()->migrate())
      log.info("migrated", {{"store", store.describe()}, {"version", fmt::format("{}", version)}});
  require_schema(store);
}

void sleep_until(Steady deadline, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_until(lock, stop, deadline, [] { return false; });
}

}  // namespace

bool prepare_store(Store& store, const StoreWait& options, const Notifier& notifier, const Log& log,
                   const std::stop_token& stop) {
  Outage outage(log, {"store", store.describe()});
  while (!stop.stop_requested()) {
    try {
      prepare_schema(store, options.migrate, log);
      outage.worked();
      return true;
    } catch (const Error& error) {
      if (error.remedy() != Remedy::retry || !options.wait) throw;
      outage.failed(error, system_clock().steady());
      notifier.waiting(fmt::format("waiting for the store: {}", error.what()));
    }
    sleep_until(outage.next_try(), stop);
  }
  return false;
}

}  // namespace waybill::app
