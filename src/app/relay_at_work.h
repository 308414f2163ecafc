#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
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

// A relay on a thread of its own, with one configuration. When it leaves, it gives back what is idle at once and waits
// for the rest as long as its grace allows. The next relay may work meanwhile.
class RelayAtWork {
 public:
  // It leaves when `stop` is requested, too. If it fails before, it calls `failed`, on its own thread.
  RelayAtWork(std::unique_ptr<Relay> relay, Settings settings, Store& store, Monitor& monitor, Log log,
              const std::stop_token& stop, std::function<void()> failed);
  // Leaves, and waits until it is gone.
  ~RelayAtWork();
  RelayAtWork(const RelayAtWork&) = delete;
  RelayAtWork& operator=(const RelayAtWork&) = delete;

  void leave() { leaving_.request_stop(); }
  bool gone() const { return gone_; }
  // Leaves, and waits until it is gone. Throws what it has failed with.
  void finish();

 private:
  void run();

  const std::unique_ptr<Relay> relay_;
  const Settings settings_;
  Monitor& monitor_;
  const Log log_;
  const std::function<void()> failed_;
  Caretaker caretaker_;
  std::stop_source leaving_;
  const std::stop_callback<std::function<void()>> on_stop_;
  std::atomic<bool> gone_ = false;
  std::exception_ptr failure_;  // To be read when the thread has ended.
  std::jthread thread_;         // Last: it uses the others.
};

}  // namespace waybill::app
