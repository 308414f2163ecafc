#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/time.h"

namespace waybill {

// A Breaker keeps a destination that is away from being hammered, and events from being buried for what is not their
// fault. Closed, everything may go. It opens when the destination is found unavailable, when it has rejected many
// events in a row, or when most events of many keys fail: then nothing goes until the next try, at growing intervals
// with jitter. After a successful try it ramps up: twice as many with every delivery, then closed. Not thread-safe.
//
// Failures are judged by where the events come from. If nearly all of the last failures are of a few tenants and
// topics, or of a few tenants, or of a few topics, the breaker opens for these events only: they are the suspects. They
// are set aside and tried one at a time; all others go as if it was closed, and what becomes of them decides: a
// delivery closes the breaker, and failures of theirs widen the suspicion until it is the whole destination's.
//
// The invariants:
// - Between two deliveries at most `rejections_max` events are buried, whatever tenants and topics they are of. From
//   then on no failure counts against an event until something is delivered.
// - Failures of up to `suspects_max` tenants or topics keep no events of others waiting, up to `set_aside_max` of them:
// so
//   many are looked past without a delivery before the destination is taken to be away.
// - An outcome that says nothing about the destination (Outcome::unsent) is not told to the breaker.
class Breaker {
 public:
  static constexpr int rejections_max = 20;
  static constexpr std::size_t suspects_max = 4;
  static constexpr std::size_t set_aside_max = 100'000;

  // Whose event it is.
  struct Source {
    std::int64_t event = 0;  // A number of its own.
    std::string_view tenant{};
    std::string_view topic{};
  };

  // How many events may be under way now.
  std::size_t allowance(std::size_t most) const;
  // May this event go now? If not, it is to be set aside for a while, unless the breaker is open. `fresh`: it has not
  // been set aside before.
  bool admits(const Source& source, bool fresh, Steady now);
  // For how long. `chance` is a random number in [0, 1), here and below.
  std::chrono::milliseconds set_aside_for(double chance) const;

  // What an attempt came to.
  void delivered();
  void unavailable(Steady now, double chance, const std::string& reason);
  // The event failed, or was rejected for good. Returns whether that counts against the event; if not, the destination
  // is to blame, or suspected.
  bool failed(const Source& source, std::uint64_t key, Steady now, double chance, const std::string& reason);
  bool rejected(const Source& source, Steady now, double chance, const std::string& reason);

  // For everything.
  bool open() const { return failures_ > 0 && !trying_ && suspects_.empty(); }
  // Open, or trying whether it need be.
  bool away() const { return failures_ > 0 && suspects_.empty(); }
  // Open for some events only: only then need admits() be asked.
  bool suspicious() const { return !suspects_.empty(); }
  bool closed() const { return failures_ == 0; }
  // REQUIRES: !closed()
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
  struct Failure {
    std::int64_t event = 0;
    std::string tenant{};
    std::string topic{};
  };
  // None: any. At least one is set.
  struct Suspect {
    std::optional<std::string> tenant{};
    std::optional<std::string> topic{};

    bool covers(std::string_view the_tenant, std::string_view the_topic) const {
      return (!tenant || *tenant == the_tenant) && (!topic || *topic == the_topic);
    }
    std::string to_string() const;
    friend auto operator<=>(const Suspect&, const Suspect&) = default;
  };
  using Suspects = std::vector<Suspect>;

  void remember(Answer answer);
  void remember(const Source& source);
  bool most_fail() const;
  bool blame(Steady now, double chance, const std::string& reason);
  bool suspects(std::string_view tenant, std::string_view topic) const;
  Suspects find_suspects() const;
  template <typename Kind>
  Suspects few_that_cover(const Kind& kind) const;
  void open_for_all(Steady now, double chance, const std::string& reason);
  void pause(Steady now, double chance);

  int failures_ = 0;
  bool trying_ = false;
  bool booked_ = false;
  bool blames_destination_ = false;  // since it has opened for failed events, until one is delivered
  Suspects suspects_;                // It is open for these only.
  bool suspect_tried_ = false;       // One of them is under way, as the next try.
  std::size_t set_aside_ = 0;        // since the last delivery
  int rejections_ = 0;               // in a row
  std::deque<Answer> recent_;
  std::deque<Failure> last_failures_;  // each of another event
  std::size_t ramp_ = 0;               // 0: closed
  Steady next_try_{};
  std::string reason_;
};

}  // namespace waybill
