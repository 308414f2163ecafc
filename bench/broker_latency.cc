// How long after its commit an event is confirmed by a broker: at 1,000 events a second, from the moment COMMIT is sent
// to the moment the relay has the confirmation, over what the confirmation takes for a bare publisher at that rate.
#include <atomic>
#include <stop_token>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

#include "waybill/postgres.h"
#include "waybill/relay.h"

#include "await.h"
#include "bench.h"
#include "broker.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;

constexpr int rate = 1'000;
constexpr long warm_up = 1'000'000'000;  // Events from this number on do not count.

// A sink that notes when each event was confirmed, by the event's version.
class TimedSink final : public Sink {
 public:
  struct Times {
    explicit Times(std::size_t count) : confirmed(count) {}
    std::vector<SteadyTime> confirmed;
    std::atomic<long> counted = 0;
    std::atomic<long> failed = 0;
  };

  TimedSink(std::unique_ptr<Sink> inner, Times& times) : inner_(std::move(inner)), times_(times) {}

  void submit(const EventView& event, std::uint64_t ticket) override {
    versions_[ticket] = static_cast<std::size_t>(*event.version);
    inner_->submit(event, ticket);
  }
  void collect(std::vector<Outcome>& outcomes, Steady deadline) override {
    const std::size_t before = outcomes.size();
    inner_->collect(outcomes, deadline);
    const auto now = std::chrono::steady_clock::now();
    for (std::size_t i = before; i < outcomes.size(); ++i) {
      if (outcomes[i].kind != Outcome::Kind::delivered) ++times_.failed;
      const auto found = versions_.extract(outcomes[i].ticket);
      if (found.mapped() < times_.confirmed.size()) times_.confirmed[found.mapped()] = now;
      ++times_.counted;
    }
  }
  std::size_t in_flight_max() const override { return inner_->in_flight_max(); }
  Outcome probe(Steady deadline) override { return inner_->probe(deadline); }
  void close(Steady deadline) override {
    inner_->close(deadline);
    versions_.clear();
  }

 private:
  std::unique_ptr<Sink> inner_;
  Times& times_;
  std::unordered_map<std::uint64_t, std::size_t> versions_;
};

struct Percentiles {
  double p50 = 0;
  double p99 = 0;
};

Percentiles percentiles_of(const std::vector<double>& values) {
  return {.p50 = percentile(values, 0.5), .p99 = percentile(values, 0.99)};
}

Percentiles commit_to_confirm(const std::string& url, const std::string& destination, Broker& broker,
                              std::chrono::milliseconds duration) {
  broker.empty();
  TimedSink::Times times(static_cast<std::size_t>(rate * duration / 1s));
  const auto store = postgres_store({.url = url});
  Relay relay(*store, {});
  relay.add({.name = destination, .start = Start::now}, std::make_unique<TimedSink>(broker.sink(), times));
  std::jthread runner([&](std::stop_token stop) { relay.run(std::move(stop)); });
  Connection connection(url);
  await("the destination is there", 10ms, [&] {
    return connection.number(fmt::format("SELECT count(*) FROM waybill.cursor WHERE destination = '{}'", destination)) >
           0;
  });
  const auto warm = static_cast<long>(commit_paced(url, warm_up, 100, 500ms).size());
  await("it is warm", 5ms, [&] { return times.counted >= warm; });
  const auto commits = commit_paced(url, 0, rate, duration);
  await("all is confirmed", 5ms, [&] { return times.counted >= warm + static_cast<long>(commits.size()); });
  runner.request_stop();
  runner.join();
  if (times.failed > 0) throw std::runtime_error(fmt::format("{} attempts failed", times.failed.load()));
  std::vector<double> took;
  for (std::size_t n = 0; n < commits.size(); ++n)
    took.push_back(std::chrono::duration<double, std::milli>(times.confirmed[n] - commits[n].sent).count());
  return percentiles_of(took);
}

Percentiles bare(Broker& broker, std::chrono::milliseconds duration) {
  broker.empty();
  broker.publisher(1)->round_trips(100, 500ms);
  return percentiles_of(broker.publisher(1)->round_trips(rate, duration));
}

void measure(Run& run, Broker& broker) {
  const std::string url = run.server.migrated_database();
  const auto duration = run.scale.quick ? 2'000ms : 5'000ms;
  Figure figure{.name = broker.name() + "_commit_to_confirm_over_bare_p99_ms", .unit = "ms", .goal = at_most(3)};
  std::map<std::string, std::vector<double>> details;
  const auto results = side_by_side<Percentiles>(
      run.scale.many_pairs(), [&] { return commit_to_confirm(url, run.fresh_name(), broker, duration); },
      [&] { return bare(broker, duration); });
  for (const auto& [relayed, alone] : results) {
    figure.samples.push_back(relayed.p99 - alone.p99);
    details["commit to confirm p50 ms"].push_back(relayed.p50);
    details["commit to confirm p99 ms"].push_back(relayed.p99);
    details["bare round trip p50 ms"].push_back(alone.p50);
    details["bare round trip p99 ms"].push_back(alone.p99);
  }
  for (const auto& [name, values] : details) figure.details[name] = median(values);
  run.report.add(std::move(figure));
  run.server.drop(url);
}

}  // namespace

void rabbitmq_commit_to_confirm(Run& run) {
  measure(run, *rabbitmq_broker("quorum"));
}

void nats_commit_to_confirm(Run& run) {
  measure(run, *nats_broker());
}

}  // namespace waybill::bench
