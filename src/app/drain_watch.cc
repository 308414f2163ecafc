#include "app/drain_watch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "waybill/error.h"

#include "app/dialogue.h"
#include "app/terminal.h"
#include "base/time_text.h"

namespace waybill::app {
namespace {

using namespace std::chrono_literals;

constexpr auto look_interval = 100ms;
constexpr auto quiet_min = 1s;  // Nothing has moved for so long: people want to know why.
constexpr auto repeat_interval = 30s;
// The next attempt is looked for among so many events; of more it is not told.
constexpr int retrying_looked_at = 100;

std::string count_text(const Count& count) {
  return fmt::format("{}{}", count.exact ? "" : "about ", grouped(count.value));
}

const DestinationStatus* find(const StoreStatus& status, const std::string& name) {
  const auto& all = status.destinations;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

// ", the next attempt at …" of events that are tried again; empty if it is not known.
std::string next_attempt(Inspector& inspector, const std::string& destination, const Count& retrying) {
  if (!retrying.exact || retrying.value > retrying_looked_at) return {};
  const auto list = inspector.undelivered(
      {.destination = destination, .standings = {Standing::retrying}, .limit = retrying_looked_at});
  std::optional<Time> next;
  for (const auto& view : list.events)
    if (view.due && (!next || *view.due < *next)) next = view.due;
  return next ? fmt::format(" (the next attempt at {})", to_rfc3339(*next)) : "";
}

std::string left_at(Inspector& inspector, const DestinationStatus& status, const std::string& away, bool all) {
  std::vector<std::string> parts;
  if ((all || status.paused) && status.pending.value > 0) parts.push_back(count_text(status.pending) + " pending");
  for (const auto standing : {Standing::retrying, Standing::blocked}) {
    const auto count = status.undelivered.find(standing);
    if (count == status.undelivered.end() || count->second.value == 0) continue;
    parts.push_back(fmt::format(
        "{} {}{}", count_text(count->second), to_string(standing),
        standing == Standing::retrying ? next_attempt(inspector, status.name, count->second) : std::string()));
  }
  if (parts.empty()) return {};
  std::string text = fmt::format("left at '{}': {}", status.name, fmt::join(parts, ", "));
  if (status.paused) {
    text += fmt::format("; it is paused: 'waybill resume {}' lets it go on", status.name);
  } else if (!away.empty()) {
    text += "; it is away: " + away;
  }
  return text;
}

}  // namespace

void DrainWatch::run(const std::stop_token& stop) {
  std::int64_t total = 0;
  if (const auto before = status())
    for (const auto& name : destinations_)
      if (const auto* destination = find(*before, name)) total += destination->pending.value;
  bar_.emplace(!is_quiet());
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  std::int64_t last = -1;
  Steady quiet_since{};
  do {
    const Steady now = system_clock().steady();
    const std::int64_t done = moved();
    bar_->show(done, total);
    if (done != last) quiet_since = now;
    last = done;
    if (now - quiet_since >= quiet_min && now >= next_look_) tell(now);
    never.wait_for(lock, stop, look_interval, [] { return false; });
  } while (!stop.stop_requested());
  bar_.reset();
}

std::string DrainWatch::reason(const std::string& destination) const {
  const auto found = away_.find(destination);
  return found == away_.end() ? "" : found->second.reason;
}

// How many events have been dealt with.
std::int64_t DrainWatch::moved() {
  std::uint64_t sum = 0;
  for (const auto& name : destinations_) {
    const RelayCounts counts = relay_.counts(name);
    sum += counts.delivered + counts.skipped + counts.dead;
    away_[name] = counts.breaker;
  }
  return static_cast<std::int64_t>(sum);
}

std::optional<StoreStatus> DrainWatch::status() {
  try {
    if (!inspector_) inspector_ = store_.inspector();
    return inspector_->status();
  } catch (const Error&) {
    inspector_.reset();
    return std::nullopt;
  }
}

std::vector<std::string> DrainWatch::reasons_to_wait() {
  std::vector<std::string> reasons;
  const auto status = this->status();
  if (!status) reasons.emplace_back("waiting for the store: it is away");
  for (const auto& name : destinations_) {
    const BreakerState& breaker = away_[name];
    const auto* destination = status ? find(*status, name) : nullptr;
    if (breaker.open) {
      reasons.push_back(fmt::format("waiting for '{}': it is away: {}", name, breaker.reason));
    } else if (destination != nullptr && !destination->paused && destination->pending.value > 0) {
      reasons.push_back(fmt::format("waiting for '{}': {} pending", name, count_text(destination->pending)));
    }
  }
  return reasons;
}

void DrainWatch::tell(Steady now) {
  next_look_ = now + quiet_min;
  auto reasons = reasons_to_wait();
  if (reasons.empty() || (reasons == told_ && now < next_repeat_)) return;
  bar_.reset();
  for (const auto& reason : reasons) note(reason);
  if (told_.empty()) note("to end it after a time, use --timeout; to end it now, press Ctrl-C");
  bar_.emplace(!is_quiet());
  told_ = std::move(reasons);
  next_repeat_ = now + repeat_interval;
}

std::vector<std::string> left_undelivered(Inspector& inspector, const std::vector<std::string>& destinations,
                                          const DrainWatch& watch, bool all) {
  std::vector<std::string> lines;
  const StoreStatus status = inspector.status();
  for (const auto& name : destinations) {
    if (const auto* destination = find(status, name)) {
      if (auto line = left_at(inspector, *destination, watch.reason(name), all); !line.empty())
        lines.push_back(std::move(line));
    } else if (all) {
      lines.push_back(fmt::format("left at '{}': everything; it was not begun", name));
    }
  }
  return lines;
}

}  // namespace waybill::app
