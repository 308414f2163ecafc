#include "relay/breaker.h"

#include <algorithm>
#include <set>

#include "base/assert.h"

namespace waybill {
namespace {

constexpr std::chrono::milliseconds first_pause{100};
constexpr std::chrono::milliseconds longest_pause{4'000};
constexpr std::size_t ramp_full = 1024;
// "Most fail": of the last so many answers, of so many keys.
constexpr std::size_t recent_answers = 100;
constexpr std::size_t recent_keys = 20;

}  // namespace

std::size_t Breaker::allowance(std::size_t most) const {
  if (open()) return 0;
  return ramp_ == 0 ? most : std::min(most, ramp_);
}

void Breaker::unavailable(Steady now, double chance, const std::string& reason) {
  if (open()) return;  // One of several that were under way together: it is one outage.
  auto pause = first_pause;
  for (int i = 0; i < failures_ && pause < longest_pause; ++i) pause *= 2;
  pause = std::min(pause, longest_pause);
  ++failures_;
  trying_ = false;
  ramp_ = 1;
  reason_ = reason;
  next_try_ = now + pause / 2 +
              std::chrono::microseconds(static_cast<std::int64_t>(
                  chance * static_cast<double>(std::chrono::microseconds(pause / 2).count())));
}

bool Breaker::failed(std::uint64_t key, Steady now, double chance, const std::string& reason) {
  remember({.failed = true, .key = key});
  if (!blames_destination_ && !most_fail()) return true;
  blames_destination_ = true;
  unavailable(now, chance, "most events fail, the last with: " + reason);
  return false;
}

bool Breaker::rejected(Steady now, double chance, const std::string& reason) {
  if (!blames_destination_ && ++rejections_ <= rejections_max) return true;
  blames_destination_ = true;
  unavailable(now, chance, "it has rejected every event for a while, the last with: " + reason);
  return false;
}

void Breaker::remember(Answer answer) {
  recent_.push_back(answer);
  if (recent_.size() > recent_answers) recent_.pop_front();
}

bool Breaker::most_fail() const {
  if (recent_.size() < recent_answers / 2) return false;
  std::size_t failed = 0;
  std::set<std::uint64_t> keys;
  for (const Answer& answer : recent_) {
    if (!answer.failed) continue;
    ++failed;
    keys.insert(answer.key);
  }
  return failed * 2 > recent_.size() && keys.size() >= recent_keys;
}

void Breaker::put_off(Steady until) {
  WAYBILL_ASSERT(open());
  next_try_ = until;
  booked_ = true;
}

void Breaker::try_now() {
  WAYBILL_ASSERT(open());
  trying_ = true;
  booked_ = false;
}

void Breaker::available() {
  failures_ = 0;
  trying_ = false;
  if (ramp_ == 0) return;
  ramp_ *= 2;
  if (ramp_ >= ramp_full) ramp_ = 0;
}

void Breaker::delivered() {
  rejections_ = 0;
  remember({});
  if (blames_destination_) recent_.clear();
  blames_destination_ = false;
  available();
}

}  // namespace waybill
