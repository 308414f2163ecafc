#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "waybill/time.h"

namespace waybill {

// The Pace of one who looks at the log while events keep coming. Few events are wanted soon. Many are better read
// together: every look costs the server as much as dozens of events, and those who write them pay for it. So the pause
// grows with the square of their rate: a look brings one or two of a thousand events a second, a hundred of five
// thousand.
class Pace {
 public:
  static constexpr Steady::duration pause_min = std::chrono::milliseconds(1);
  static constexpr Steady::duration pause_max = std::chrono::milliseconds(20);
  static constexpr double rate_of_pause_max = 5'000;  // events/s
  // Over about so long the rate is taken.
  static constexpr Steady::duration memory = std::chrono::milliseconds(100);

  // A look has brought `events`. Behind: there is more to read already.
  void looked(std::size_t events, bool behind, Steady now) {
    using Seconds = std::chrono::duration<double>;
    const Steady::duration since = now - last_;
    rate_ *= 1 - std::min(1.0, Seconds(since) / memory);
    rate_ += static_cast<double>(events) / Seconds(std::max(since, memory)).count();
    last_ = now;
    const double part = std::min(1.0, rate_ / rate_of_pause_max);
    pause_ = behind ? Steady::duration(0)
                    : std::max(pause_min, std::chrono::duration_cast<Steady::duration>(part * part * pause_max));
  }

  Steady::duration pause() const { return pause_; }
  // When it is time to look again.
  Steady next() const { return last_ + pause_; }

 private:
  Steady last_{};
  Steady::duration pause_{};
  double rate_ = 0;  // events/s
};

}  // namespace waybill
