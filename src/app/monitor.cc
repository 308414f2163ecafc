#include "app/monitor.h"

#include <algorithm>
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

// What was done adds up, and so do leases; how it stands is as the last one says.
void add(RelayCounts& sum, const RelayCounts& more) {
  sum.delivered += more.delivered;
  sum.repeated += more.repeated;
  sum.skipped += more.skipped;
  sum.unmatched += more.unmatched;
  sum.failed += more.failed;
  for (const auto& [kind, count] : more.failed_with) sum.failed_with[kind] += count;
  sum.dead += more.dead;
  sum.expired += more.expired;
  sum.expired_unknown += more.expired_unknown;
  add(sum.latency, more.latency);
  sum.lag = more.lag;
  sum.leases += more.leases;
  sum.breaker = more.breaker;
  sum.trusted_until = more.trusted_until;
}

}  // namespace

void Monitor::look_at(const Relay& relay, const Caretaker& caretaker, std::vector<std::string> destinations) {
  const std::lock_guard lock(mutex_);
  watched_.push_back({&relay, &caretaker, std::move(destinations)});
}

void Monitor::look_away(const Relay& relay) {
  const std::lock_guard lock(mutex_);
  const auto gone =
      std::find_if(watched_.begin(), watched_.end(), [&](const Watched& each) { return each.relay == &relay; });
  if (gone == watched_.end()) return;
  gone->add_counts(before_);
  for (auto& [name, counts] : before_) {
    counts.lag = {};
    counts.leases = 0;
    counts.breaker = {};
    counts.trusted_until = {};
  }
  if (const auto names = gone->caretaker->held_back()) held_back_ = names->size();
  watched_.erase(gone);
}

void Monitor::Watched::add_counts(std::map<std::string, RelayCounts>& sum) const {
  for (const std::string& name : destinations) add(sum[name], relay->counts(name));
}

std::map<std::string, RelayCounts> Monitor::counts() const {
  auto sum = before_;
  for (const Watched& each : watched_) each.add_counts(sum);
  return sum;
}

Metrics Monitor::metrics() {
  Metrics metrics{.version = WAYBILL_VERSION, .figures = figures_.read()};
  const std::lock_guard lock(mutex_);
  metrics.destinations = counts();
  metrics.held_back = held_back_;
  if (watched_.empty()) return metrics;
  const Watched& at_work = watched_.back();
  metrics.health = at_work.relay->health();
  metrics.clean_failing = at_work.caretaker->failing();
  if (const auto names = at_work.caretaker->held_back()) metrics.held_back = names->size();
  return metrics;
}

RelayHealth Monitor::health() const {
  const std::lock_guard lock(mutex_);
  return watched_.empty() ? RelayHealth{} : watched_.back().relay->health();
}

}  // namespace waybill::app
