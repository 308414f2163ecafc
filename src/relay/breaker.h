#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "waybill/time.h"

namespace waybill {

// A Breaker keeps a destination that is away from being hammered, and events from being buried for what is not their
// fault. Closed, everything may go. It opens when the destination is found unavailable, when it has rejected many
// events in a row, or when most events of many keys fail: then nothing goes until the next try, at growing intervals
// with jitter. After a successful try it ramps up: twice as many with every delivery, then closed. Not thread-safe.
class Breaker {
 public:
  static constexpr int rejections_max = 20;

  // How many events may be under way now.
  std::size_t allowance(std::size_t most) const;

  // What an attempt came to. `chance` is a random number in [0, 1).
  void delivered();
  void unavailable(Steady now, double chance, const std::string& reason);
  // The event failed, or was rejected for good. Returns whether that counts against the event; if not, the destination
  // is to blame.
  bool failed(std::uint64_t key, Steady now, double chance, const std::string& reason);
  bool rejected(Steady now, double chance, const std::string& reason);

  bool open() const { return failures_ > 0 && !trying_; }
  // Open, or trying whether it need be.
  bool away() const { return failures_ > 0; }
  // REQUIRES: away()
  Steady next_try() const { return next_try_; }
  // Why it is open, or was when it was last.
  const std::string& reason() const { return reason_; }
  // The next try is put off, to a time that is booked for it.
  void put_off(Steady until);
  bool booked() const { return booked_; }
  // The next try is under way.
  void try_now();
  // The try was no event, and succeeded.
  void available();

 private:
  struct Answer {
    bool failed = false;
    std::uint64_t key = 0;
  };

  void remember(Answer answer);
  bool most_fail() const;

  int failures_ = 0;
  bool trying_ = false;
  bool booked_ = false;
  bool blames_destination_ = false;  // since it has opened for failed events, until one is delivered
  int rejections_ = 0;               // in a row
  std::deque<Answer> recent_;
  std::size_t ramp_ = 0;  // 0: closed
  Steady next_try_{};
  std::string reason_;
};

}  // namespace waybill
