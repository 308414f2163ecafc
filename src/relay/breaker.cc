#include "relay/breaker.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/assert.h"

namespace waybill {
namespace {

constexpr std::chrono::milliseconds first_pause{100};
constexpr std::chrono::milliseconds longest_pause{4'000};
constexpr std::size_t ramp_full = 1024;
// "Most fail": of the last so many answers, of so many keys.
constexpr std::size_t recent_answers = 100;
constexpr std::size_t recent_keys = 20;
// "Nearly all are of a few tenants or topics": of the last failures of so many events, all but so many.
constexpr std::size_t last_failures = 20;
constexpr std::size_t strays = 2;
// How long a suspect is set aside: longer with every try that fails, up to so long, and by as much again for so many
// that are.
constexpr std::chrono::milliseconds set_aside_first{1'000};
constexpr std::chrono::milliseconds set_aside_longest{5'000};
constexpr std::size_t set_aside_crowd = 10'000;

std::chrono::microseconds with_jitter(std::chrono::microseconds pause, double chance) {
  return pause / 2 +
         std::chrono::microseconds(static_cast<std::int64_t>(chance * static_cast<double>((pause / 2).count())));
}

}  // namespace

std::size_t Breaker::allowance(std::size_t most) const {
  if (open()) return 0;
  return ramp_ == 0 ? most : std::min(most, ramp_);
}

bool Breaker::admits(const Source& source, bool fresh, Steady now) {
  if (suspects_.empty()) return !open();
  if (!suspects(source.tenant, source.topic)) return true;
  if (now >= next_try_) {
    // Should it never be answered, another goes when this time is over.
    next_try_ = now + longest_pause;
    suspect_tried_ = true;
    return true;
  }
  if (fresh && ++set_aside_ > set_aside_max) {
    suspects_.clear();
    trying_ = false;
    ramp_ = 1;
  }
  return false;
}

std::chrono::milliseconds Breaker::set_aside_for(double chance) const {
  const auto crowd = static_cast<std::int64_t>(1 + set_aside_ / set_aside_crowd);
  const auto pause = std::min(set_aside_first * std::max(failures_, 1), set_aside_longest);
  return std::chrono::ceil<std::chrono::milliseconds>(with_jitter(pause * crowd, chance));
}

void Breaker::unavailable(Steady now, double chance, const std::string& reason) {
  if (open()) return;  // One of several that were under way together: it is one outage.
  open_for_all(now, chance, reason);
}

void Breaker::open_for_all(Steady now, double chance, const std::string& reason) {
  suspects_.clear();
  trying_ = false;
  ramp_ = 1;
  reason_ = reason;
  pause(now, chance);
}

// Until the next try, longer each time.
void Breaker::pause(Steady now, double chance) {
  auto pause = first_pause;
  for (int i = 0; i < failures_ && pause < longest_pause; ++i) pause *= 2;
  ++failures_;
  next_try_ = now + with_jitter(std::min(pause, longest_pause), chance);
}

bool Breaker::failed(const Source& source, std::uint64_t key, Steady now, double chance, const std::string& reason) {
  remember({.failed = true, .key = key});
  remember(source);
  if (!blames_destination_ && !most_fail()) return true;
  return blame(now, chance, "most events fail, the last with: " + reason);
}

bool Breaker::rejected(const Source& source, Steady now, double chance, const std::string& reason) {
  remember(source);
  if (!blames_destination_ && ++rejections_ <= rejections_max) return true;
  return blame(now, chance, "it has rejected every event for a while, the last with: " + reason);
}

// Opens, for those that have failed, or for more than it was open for. Returns false: no event is to blame.
bool Breaker::blame(Steady now, double chance, const std::string& reason) {
  const bool first = !std::exchange(blames_destination_, true);
  if (away()) {  // It cannot be told who is to blame until something is delivered.
    unavailable(now, chance, reason);
    return false;
  }
  suspects_ = find_suspects();
  if (suspects_.empty()) {
    open_for_all(now, chance, reason);
    return false;
  }
  std::string names = suspects_.front().to_string();
  for (std::size_t i = 1; i < suspects_.size(); ++i) names += " and " + suspects_[i].to_string();
  reason_ = fmt::format("events {} fail and are held back, others go on: {}", names, reason);
  if (first || std::exchange(suspect_tried_, false)) pause(now, chance);
  return false;
}

bool Breaker::suspects(std::string_view tenant, std::string_view topic) const {
  return std::any_of(suspects_.begin(), suspects_.end(),
                     [&](const Suspect& suspect) { return suspect.covers(tenant, topic); });
}

// The narrowest that nearly all of the last failures are of; none if they are too many.
Breaker::Suspects Breaker::find_suspects() const {
  auto found = few_that_cover([](const Failure& each) { return Suspect{.tenant = each.tenant, .topic = each.topic}; });
  if (found.empty()) found = few_that_cover([](const Failure& each) { return Suspect{.tenant = each.tenant}; });
  if (found.empty()) found = few_that_cover([](const Failure& each) { return Suspect{.topic = each.topic}; });
  return found;
}

template <typename Kind>
Breaker::Suspects Breaker::few_that_cover(const Kind& kind) const {
  std::map<Suspect, std::size_t> counts;
  for (const Failure& each : last_failures_) ++counts[kind(each)];
  std::vector<std::pair<Suspect, std::size_t>> most_first(counts.begin(), counts.end());
  std::stable_sort(most_first.begin(), most_first.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Suspects few;
  std::size_t left = last_failures_.size();
  for (const auto& [suspect, count] : most_first) {
    if (left <= strays || few.size() == suspects_max) break;
    few.push_back(suspect);
    left -= count;
  }
  return left <= strays ? few : Suspects{};
}

std::string Breaker::Suspect::to_string() const {
  std::string text;
  if (topic) text += fmt::format("of topic '{}'", *topic);
  if (tenant) text += fmt::format("{}of tenant '{}'", topic ? " " : "", *tenant);
  return text;
}

void Breaker::remember(Answer answer) {
  recent_.push_back(answer);
  if (recent_.size() > recent_answers) recent_.pop_front();
}

// An event that fails again and again is one.
void Breaker::remember(const Source& source) {
  std::erase_if(last_failures_, [&](const Failure& each) { return each.event == source.event; });
  last_failures_.push_back(
      {.event = source.event, .tenant = std::string(source.tenant), .topic = std::string(source.topic)});
  if (last_failures_.size() > last_failures) last_failures_.pop_front();
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
  remember(Answer{});
  if (blames_destination_) recent_.clear();
  blames_destination_ = false;
  suspects_.clear();
  suspect_tried_ = false;
  set_aside_ = 0;
  available();
}

}  // namespace waybill
