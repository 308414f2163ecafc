#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "waybill/time.h"

namespace waybill::net {

// Until when the certificates hold that a destination's last connection rests on: theirs, their authority's, ours.
// May be used by several threads.
class Expiry {
 public:
  // None: there was no TLS.
  void note(std::optional<Time> until) { until_ = until.value_or(Time::max()); }
  std::optional<Time> until() const {
    const Time until = until_;
    return until == Time::max() ? std::nullopt : std::optional(until);
  }

 private:
  std::atomic<Time> until_ = Time::max();
};

// What doctor says of it.
struct ExpiryAdvice {
  bool soon = false;  // In less than two weeks.
  std::string text{};
  std::string remedy{};  // Empty if it is not soon.
};
ExpiryAdvice advise_on_expiry(Time until, Time now);

}  // namespace waybill::net
