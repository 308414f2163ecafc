#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "waybill/log.h"
#include "waybill/relay.h"
#include "waybill/store.h"

#include "app/monitor.h"
#include "app/settings.h"
#include "upkeep/caretaker.h"

namespace waybill::app {

// What it has done at each destination.
void log_counts(const Relay& relay, const Settings& settings, const Log& log);

// A relay on a thread of its own, for one round of the configuration. When the round is over it leaves: it gives back
// what is idle at once and waits for the rest as long as its grace allows. The next relay may work meanwhile.
class RelayAtWork {
 public:
  // `round` is stopped when it is over.
  RelayAtWork(std::unique_ptr<Relay> relay, Settings settings, Store& store, Monitor& monitor, Log log,
              std::stop_token round);
  // Waits until it is gone.
  ~RelayAtWork();
  RelayAtWork(const RelayAtWork&) = delete;
  RelayAtWork& operator=(const RelayAtWork&) = delete;

  // Until the round is over. Throws what the relay has failed with before.
  void wait_for_end_of_round();
  // Until it is gone. Throws what the relay has failed with.
  void finish();

 private:
  void run();
  void rethrow();

  const std::unique_ptr<Relay> relay_;
  const Settings settings_;
  Monitor& monitor_;
  const Log log_;
  const std::stop_token round_;
  Caretaker caretaker_;
  std::mutex mutex_;  // guards the next two
  bool gone_ = false;
  std::exception_ptr failure_;
  std::condition_variable_any changed_;
  std::jthread thread_;  // Last: it uses the others.
};

}  // namespace waybill::app
