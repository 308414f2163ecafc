#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "waybill/store.h"
#include "waybill/time.h"

namespace waybill {

// Figures are what only the store can tell (what is pending, what is undelivered), as they were a moment ago. One
// thread asks, at most every 5 s, and only while somebody wants to know; whoever reads gets what is there and never
// waits for the store. read() may be called from any thread. `store` must outlive it, and `clock`.
class Figures {
 public:
  static constexpr std::chrono::seconds interval{5};
  // For so long after the last read() it goes on asking: longer than anybody's interval between two scrapes.
  static constexpr std::chrono::minutes interest{5};
  // Older figures than that are none.
  static constexpr std::chrono::seconds age_max{60};

  explicit Figures(Store& store, const Clock& clock = system_clock());

  struct Snapshot {
    StoreStatus status{};
    std::chrono::milliseconds age{};
  };
  // Nothing: the store has not answered for a while.
  std::optional<Snapshot> read();

  // Asks until `stop`.
  void run(const std::stop_token& stop);
  // One turn without waiting. Returns when it is time for the next.
  Steady step();

 private:
  void look();

  Store& store_;
  const Clock& clock_;
  std::unique_ptr<Inspector> inspector_;  // the asking thread's own, as is:
  Steady next_{};

  std::mutex mutex_;
  Steady wanted_;                      // guarded by mutex_: the last read()
  Steady known_;                       // guarded by mutex_: when it was asked for what follows
  std::optional<StoreStatus> status_;  // guarded by mutex_
};

}  // namespace waybill
