#pragma once

#include <random>

#include "waybill/error.h"
#include "waybill/log.h"
#include "waybill/time.h"

namespace waybill {

// May the same work if it is only tried again? What the store refuses for what it says (fix_input) is refused again,
// and each time everything under way would be sent once more.
inline bool mends_itself(const Error& error) {
  return error.remedy() == Remedy::retry || error.remedy() == Remedy::unknown;
}

// The store is away, as one connection sees it: when to try again, at growing intervals with jitter, and what to say
// about it: one line when it begins and one when it is over, however many tries lie in between. A connection that was
// made ends no outage; one that has done some work does. Not thread-safe.
class Outage {
 public:
  // `who` goes into the lines. `log` must outlive it, and so must the text that names the field.
  Outage(const Log& log, LogField who) : log_(log), who_(std::move(who)) {}

  void failed(const Error& error, Steady now);
  // The connection has done what it is for.
  void worked();

  bool may_try(Steady now) const { return now >= next_try_; }
  Steady next_try() const { return next_try_; }

 private:
  const Log& log_;
  const LogField who_;
  int failures_ = 0;
  Steady next_try_{};
  std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace waybill
