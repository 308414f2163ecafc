// A backlog of millions: does the relay keep its pace, and its size?
#include <stdexcept>

#include <fmt/format.h>

#include "await.h"
#include "bench.h"
#include "relay_process.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;

struct Sample {
  double seconds = 0;
  double settled = 0;
  double rss = 0;
};

// When so many were settled, between two samples in proportion.
double time_of(const std::vector<Sample>& samples, double settled) {
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const Sample& before = samples[i - 1];
    const Sample& after = samples[i];
    if (after.settled < settled || after.settled <= before.settled) continue;
    const double share = (settled - before.settled) / (after.settled - before.settled);
    return before.seconds + share * (after.seconds - before.seconds);
  }
  throw std::runtime_error("the drain did not come that far");
}

struct Watched {
  std::vector<Sample> samples{};  // from the first settled event on
  double relay_cpu = 0;
  double server_cpu = 0;
};

Watched watch_drain(Run& run, const std::string& url, const std::string& destination, long events) {
  Connection connection(url);
  const std::string settled =
      fmt::format("SELECT coalesce(sum(count), 0) FROM waybill.cursor WHERE destination = '{}'", destination);
  Watched watched{.server_cpu = -run.server.cpu()};
  RelayProcess relay(run.waybill, url, {destination});
  const auto begin = std::chrono::steady_clock::now();
  const auto deadline = begin + 10min;
  while (watched.samples.empty() || watched.samples.back().settled < static_cast<double>(events)) {
    std::this_thread::sleep_for(50ms);
    Sample sample{.settled = connection.number(settled), .rss = rss_mib(relay.pid())};
    sample.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (sample.settled > 0) watched.samples.push_back(sample);
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("the drain takes too long");
  }
  watched.relay_cpu = cpu_seconds(relay.pid());
  watched.server_cpu += run.server.cpu();
  relay.stop();
  return watched;
}

}  // namespace

void long_drain(Run& run) {
  const long events = run.scale.quick ? 200'000 : run.scale.full ? 10'000'000 : 3'000'000;
  const auto part = run.scale.quick ? 50'000.0 : 1'000'000.0;
  const auto all = static_cast<double>(events);
  const std::string url = run.server.migrated_database();
  load_events(url, events);
  Figure pace{.name = "last_vs_first_million", .goal = at_least(0.8)};
  Figure growth{.name = "rss_growth_mib", .unit = "MiB", .goal = at_most(64)};
  std::vector<double> rates;
  std::vector<double> relay_cpu;
  std::vector<double> server_cpu;
  std::vector<double> rss;
  for (int round = 0; round < run.scale.pairs(); ++round) {
    const Watched watched = watch_drain(run, url, run.fresh_name(), events);
    const Sample& first = watched.samples.front();
    const double begin_rate = (part - first.settled) / (time_of(watched.samples, part) - first.seconds);
    const double end_rate = part / (time_of(watched.samples, all) - time_of(watched.samples, all - part));
    pace.samples.push_back(end_rate / begin_rate);
    double largest = 0;
    for (const Sample& sample : watched.samples) largest = std::max(largest, sample.rss);
    growth.samples.push_back(largest - first.rss);
    rates.push_back(all / watched.samples.back().seconds);
    relay_cpu.push_back(watched.relay_cpu * 1e6 / all);
    server_cpu.push_back(watched.server_cpu * 1e6 / all);
    rss.push_back(largest);
  }
  pace.details = {{"events", all},
                  {"events/s", median(rates)},
                  {"relay us/event", median(relay_cpu)},
                  {"server us/event", median(server_cpu)}};
  growth.details = {{"largest rss MiB", median(rss)}};
  run.report.add(std::move(pace));
  run.report.add(std::move(growth));
  run.server.drop(url);
}

}  // namespace waybill::bench
