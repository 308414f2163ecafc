#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "waybill/error.h"
#include "waybill/log.h"
#include "waybill/store.h"
#include "waybill/time.h"

namespace waybill {

struct CaretakerOptions {
  CleanOptions clean{};
  std::function<void(const std::string& trouble)> tell{};  // Told what is wrong, and an empty text when that is over.
  std::chrono::milliseconds interval{3'600'000};  // Give or take a tenth, so that relays do not come all at once.
};

// A Caretaker has what is old removed from a store, now and then. If several relays do it at once, the store lets one
// (Upkeep). What fails is tried again, said once until it works again, and never anybody else's affair: it does not
// throw. It holds no connection while it waits.
// step() and run() are one thread's affair; held_back() and failing() are anybody's. `store` and `clock` must outlive
// it.
class Caretaker {
 public:
  Caretaker(Store& store, CaretakerOptions options, Log log = {}, const Clock& clock = system_clock());

  // Works until `stop`, which also ends a cleaning that is under way (CleanOptions::stop).
  void run(const std::stop_token& stop);

  // One turn without waiting, if it is time for one. Returns when it is time for the next.
  Steady step(const std::stop_token& stop = {});

  // Who kept events that were old enough to go, when it was last looked; none: not looked yet.
  std::optional<std::vector<std::string>> held_back() const;
  // Did the last attempt fail?
  bool failing() const { return failing_; }

 private:
  bool clean(const std::stop_token& stop);
  void note(const Cleaned& cleaned);
  void failed(const std::string& what);
  std::chrono::milliseconds about(std::chrono::milliseconds time);

  Store& store_;
  const CaretakerOptions options_;
  const Log log_;
  const Clock& clock_;

  std::mt19937_64 random_{std::random_device{}()};
  Steady next_{};
  std::unique_ptr<Upkeep> upkeep_;  // while there is more to do
  Cleaned total_;                   // of this time
  std::atomic<bool> failing_ = false;

  mutable std::mutex mutex_;
  std::optional<std::vector<std::string>> held_back_;  // guarded by mutex_
};

}  // namespace waybill
