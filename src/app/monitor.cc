#include "app/monitor.h"

#include <utility>

namespace waybill::app {
namespace {

void add(Latency& sum, const Latency& more) {
  if (sum.buckets.empty()) {
    sum = more;
    return;
  }
  for (std::size_t i = 0; i < sum.buckets.size() && i < more.buckets.size(); ++i)
    sum.buckets[i].count += more.buckets[i].count;
  sum.count += more.count;
  sum.sum += more.sum;
}

// What was done adds up; how it stands is as the last one says.
void add(RelayCounts& sum, const RelayCounts& more) {
  sum.delivered += more.delivered;
  sum.repeated += more.repeated;
  sum.skipped += more.skipped;
  sum.unmatched += more.unmatched;
  sum.failed += more.failed;
  for (const auto& [kind, count] : more.failed_with) sum.failed_with[kind] += count;
  sum.dead += more.dead;
  add(sum.latency, more.latency);
  sum.lag = more.lag;
  sum.leases = more.leases;
  sum.breaker = more.breaker;
  sum.trusted_until = more.trusted_until;
}

}  // namespace

void Monitor::look_at(const Relay& relay, const Caretaker& caretaker, std::vector<std::string> destinations) {
  const std::lock_guard lock(mutex_);
  relay_ = &relay;
  caretaker_ = &caretaker;
  destinations_ = std::move(destinations);
}

void Monitor::look_away() {
  const std::lock_guard lock(mutex_);
  before_ = counts();
  for (auto& [name, counts] : before_) {
    counts.lag = {};
    counts.leases = 0;
    counts.breaker = {};
    counts.trusted_until = {};
  }
  if (caretaker_)
    if (const auto names = caretaker_->held_back()) held_back_ = names->size();
  relay_ = nullptr;
  caretaker_ = nullptr;
}

std::map<std::string, RelayCounts> Monitor::counts() const {
  auto sum = before_;
  if (relay_)
    for (const std::string& name : destinations_) add(sum[name], relay_->counts(name));
  return sum;
}

Metrics Monitor::metrics() {
  Metrics metrics{.version = WAYBILL_VERSION, .figures = figures_.read()};
  const std::lock_guard lock(mutex_);
  metrics.destinations = counts();
  metrics.held_back = held_back_;
  if (relay_) metrics.health = relay_->health();
  if (!caretaker_) return metrics;
  metrics.clean_failing = caretaker_->failing();
  if (const auto names = caretaker_->held_back()) metrics.held_back = names->size();
  return metrics;
}

RelayHealth Monitor::health() const {
  const std::lock_guard lock(mutex_);
  return relay_ ? relay_->health() : RelayHealth{};
}

}  // namespace waybill::app
