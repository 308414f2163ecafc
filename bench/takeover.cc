// How long the work of a relay that was killed lies still: from the kill until the other relay owns all shards, less
// the lease. Several pairs of relays, each with a database of its own, are killed side by side.
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "await.h"
#include "bench.h"
#include "relay_process.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds lease = 1s;  // Short, to fit the time; what is over it does not depend on it.
constexpr int sites = 4;

class Site {
 public:
  explicit Site(Run& run)
      : run_(run), url_(run.server.migrated_database()), connection_(url_), settings_("lease = \"1s\"") {
    for (auto& relay : relays_) relay = std::make_unique<RelayProcess>(run_.waybill, url_, names_, settings_);
  }
  ~Site() {
    for (auto& relay : relays_) relay.reset();
    run_.server.drop(url_);
  }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  // Seconds from the kill to the take-over; then the victim is there again.
  double kill_one() {
    await("both relays own shards", 10ms, [&] { return owned(0) == 8 && owned(1) == 8; });
    std::this_thread::sleep_for(37ms * (kills_++ % 10));  // at any place between two heartbeats
    const std::size_t victim = kills_ % 2;
    const auto begin = std::chrono::steady_clock::now();
    relays_[victim]->kill();
    await("a take-over", 5ms, [&] { return owned(1 - victim) == 16; });
    const auto took = std::chrono::steady_clock::now() - begin;
    relays_[victim] = std::make_unique<RelayProcess>(run_.waybill, url_, names_, settings_);
    return std::chrono::duration<double>(took).count();
  }

 private:
  std::size_t owned(std::size_t relay) { return shards_owned(connection_)[relays_[relay]->name()].size(); }

  Run& run_;
  const std::string url_;
  Connection connection_;
  const std::string settings_;
  const std::vector<std::string> names_{"all"};
  std::unique_ptr<RelayProcess> relays_[2];
  std::size_t kills_ = 0;
};

}  // namespace

void takeover(Run& run) {
  const int kills = run.scale.quick ? 2 : 25;  // at each site
  Figure figure{.name = "takeover_over_lease_p99_s", .unit = "s", .goal = at_most(1)};
  std::vector<std::unique_ptr<Site>> all;
  for (int i = 0; i < sites; ++i) all.push_back(std::make_unique<Site>(run));
  std::mutex mutex;
  std::exception_ptr failure;
  {
    std::vector<std::jthread> threads;
    for (auto& site : all)
      threads.emplace_back([&] {
        try {
          for (int i = 0; i < kills; ++i) {
            const double took = site->kill_one();
            const std::lock_guard lock(mutex);
            figure.samples.push_back(took - std::chrono::duration<double>(lease).count());
          }
        } catch (...) {
          const std::lock_guard lock(mutex);
          failure = std::current_exception();
        }
      });
  }
  if (failure) std::rethrow_exception(failure);
  figure.value = percentile(figure.samples, 0.99);
  figure.details = {{"median s", median(figure.samples)}, {"lease s", 1}};
  run.report.add(std::move(figure));
}

}  // namespace waybill::bench
