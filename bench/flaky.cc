// A destination that fails now and then, and a relay that is killed: what arrives, how late, and how often twice.
#include <algorithm>
#include <future>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

#include "await.h"
#include "bench.h"
#include "relay_process.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr int rate = 1'000;
constexpr int kills = 2;
constexpr auto patience = 60s;  // After the last commit; what has not come by then is lost.

// What a destination got, event by event.
class Arrivals {
 public:
  explicit Arrivals(std::size_t events) : first_(events) {}

  void add(const std::vector<Delivery>& deliveries) {
    for (const Delivery& each : deliveries) {
      ++(each.delivered ? deliveries_ : failures_);
      if (!each.delivered) {
        failed_.insert(each.number);
        continue;
      }
      auto& first = first_.at(static_cast<std::size_t>(each.number));
      if (first) continue;
      first = each.at;
      ++distinct_;
      auto& last = last_of_key_[each.number % keys];
      if (last > each.number) ++out_of_order_;
      last = std::max(last, each.number);
    }
  }

  const std::optional<SteadyTime>& first(std::size_t number) const { return first_[number]; }
  std::size_t lost() const { return first_.size() - distinct_; }
  long out_of_order() const { return out_of_order_; }
  double duplicates() const { return static_cast<double>(deliveries_) - static_cast<double>(distinct_); }
  double failures() const { return static_cast<double>(failures_); }
  std::size_t failed_events() const { return failed_.size(); }
  // Of the events that have failed, those that were delivered in the end.
  std::size_t recovered() const {
    return static_cast<std::size_t>(std::count_if(failed_.begin(), failed_.end(), [&](std::int64_t number) {
      return first_[static_cast<std::size_t>(number)].has_value();
    }));
  }

 private:
  std::vector<std::optional<SteadyTime>> first_;
  std::unordered_map<std::int64_t, std::int64_t> last_of_key_;
  std::set<std::int64_t> failed_;
  std::size_t distinct_ = 0;
  long deliveries_ = 0;
  long failures_ = 0;
  long out_of_order_ = 0;
};

// The 95th percentile of the time from the sending of COMMIT until the first delivery: of all, and of each tenth.
Figure lag_of(const std::vector<Commit>& commits, const Arrivals& arrivals) {
  Figure figure{.name = "lag_p95_s", .unit = "s", .goal = at_most(10)};
  std::vector<double> all;
  std::vector<double> part;
  for (std::size_t n = 0; n < commits.size(); ++n) {
    if (const auto& first = arrivals.first(n))
      part.push_back(std::chrono::duration<double>(*first - commits[n].sent).count());
    if ((n + 1) % (commits.size() / 10) != 0 || part.empty()) continue;
    figure.samples.push_back(percentile(part, 0.95));
    all.insert(all.end(), part.begin(), part.end());
    part.clear();
  }
  figure.value = percentile(all, 0.95);
  figure.details = {{"median s", median(all)}, {"p99 s", percentile(all, 0.99)}, {"longest s", percentile(all, 1)}};
  return figure;
}

double percent(double part, double whole) {
  return whole == 0 ? 0 : 100 * part / whole;
}

}  // namespace

void flaky_destination(Run& run) {
  const std::chrono::seconds duration(run.scale.flaky_seconds > 0 ? run.scale.flaky_seconds
                                      : run.scale.quick           ? 15
                                                                  : 300);
  const std::string url = run.server.migrated_database();
  Connection connection(url);
  const auto start = [&] {
    return std::make_unique<FlakyRelay>(url, "flaky", std::vector<std::string>{"--fail-percent", "5"});
  };
  std::vector<std::unique_ptr<FlakyRelay>> relays;
  relays.push_back(start());
  await("a relay owns all shards", 20ms, [&] { return shards_owned(connection)[relays[0]->name()].size() == 16; });

  const auto begin = std::chrono::steady_clock::now();
  auto producers = std::async(std::launch::async, [&] { return commit_paced(url, 0, rate, duration); });
  for (int kill = 1; kill <= kills; ++kill) {
    std::this_thread::sleep_until(begin + duration * kill / (kills + 1));
    relays.back()->kill();
    relays.push_back(start());  // As whoever watches over it would.
  }
  const std::vector<Commit> commits = producers.get();
  Arrivals arrivals(commits.size());
  const auto deadline = std::chrono::steady_clock::now() + patience;
  do {
    std::this_thread::sleep_for(100ms);
    for (auto& relay : relays) arrivals.add(relay->deliveries());
  } while (arrivals.lost() > 0 && std::chrono::steady_clock::now() < deadline);
  relays.back()->stop();
  for (auto& relay : relays) arrivals.add(relay->deliveries());

  const auto written = static_cast<double>(commits.size());
  const double dead = connection.number("SELECT count(*) FROM waybill.undelivered");
  run.report.add({.name = "lost",
                  .unit = "events",
                  .goal = at_most(0),
                  .samples = {static_cast<double>(arrivals.lost())},
                  .details = {{"written", written}, {"left undelivered", dead}, {"kills", kills}}});
  run.report.add({.name = "out_of_order",
                  .unit = "events",
                  .goal = at_most(0),
                  .samples = {static_cast<double>(arrivals.out_of_order())}});
  run.report.add(lag_of(commits, arrivals));
  const auto failed = static_cast<double>(arrivals.failed_events());
  run.report.add({.name = "retry_success_percent",
                  .unit = "%",
                  .goal = at_least(99),
                  .samples = {percent(static_cast<double>(arrivals.recovered()), failed)},
                  .details = {{"events that failed", failed}, {"failed attempts", arrivals.failures()}}});
  run.report.add({.name = "duplicate_percent",
                  .unit = "%",
                  .goal = at_most(0.1),
                  .samples = {percent(arrivals.duplicates(), written)},
                  .details = {{"duplicates", arrivals.duplicates()}}});
  run.server.drop(url);
}

}  // namespace waybill::bench
