// How long after its commit an event is published: at 1,000 events a second, from the moment COMMIT is sent to the
// moment the sink has the event, over what a COMMIT itself takes without a relay and without an outbox.
#include <atomic>
#include <stop_token>
#include <thread>

#include <fmt/format.h>

#include "waybill/postgres.h"
#include "waybill/relay.h"
#include "waybill/sink.h"

#include "await.h"
#include "bench.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr int rate = 1'000;
constexpr int writers = 4;

double milliseconds(SteadyClock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// Event n is written at begun[n] and published at published[n]; each slot by one thread.
struct Times {
  explicit Times(std::size_t count) : begun(count), committed(count), published(count) {}
  std::vector<SteadyClock::time_point> begun;
  std::vector<SteadyClock::time_point> committed;
  std::vector<SteadyClock::time_point> published;
};

// Commits at a steady rate, and notes when each COMMIT was sent and answered.
void commit_into(const std::string& url, bool enqueues, std::chrono::milliseconds duration, Times& times) {
  pace(writers, rate, duration, [&](int) -> PacedClient {
    auto connection = std::make_shared<Connection>(url);
    std::string sql = enqueue_sql();
    const std::string table = "\"waybill\".event (";
    if (!enqueues) sql.replace(sql.find(table), table.size(), "plain (");
    connection->prepare("insert", sql);
    return [connection, &times](long n) {
      connection->query("BEGIN");
      connection->run("insert", enqueue_parameters(event_number(n)));
      const auto index = static_cast<std::size_t>(n);
      times.begun[index] = SteadyClock::now();
      connection->query("COMMIT");
      times.committed[index] = SteadyClock::now();
    };
  });
}

std::size_t events_in(std::chrono::milliseconds duration) {
  return static_cast<std::size_t>(rate * duration / 1s) + 1;
}

struct Percentiles {
  double p50 = 0;
  double p99 = 0;
};

Percentiles percentiles_of(const std::vector<double>& values) {
  return {.p50 = percentile(values, 0.5), .p99 = percentile(values, 0.99)};
}

Percentiles bare_commits(const std::string& url, std::chrono::milliseconds duration) {
  Times times(events_in(duration));
  commit_into(url, false, duration, times);
  std::vector<double> took;
  for (std::size_t n = 0; n < times.begun.size(); ++n)
    if (times.begun[n] != SteadyClock::time_point{}) took.push_back(milliseconds(times.committed[n] - times.begun[n]));
  return percentiles_of(took);
}

Percentiles published(const std::string& url, const std::string& destination, std::chrono::milliseconds duration) {
  Times times(events_in(duration));
  std::atomic<std::size_t> arrived = 0;
  const auto store = postgres_store({.url = url});
  Relay relay(*store, {});
  relay.add({.name = destination, .start = Start::now}, sink_from([&](const EventView& event) {
              times.published[static_cast<std::size_t>(*event.version)] = SteadyClock::now();
              ++arrived;
              return Outcome::Kind::delivered;
            }));
  std::jthread runner([&](std::stop_token stop) { relay.run(std::move(stop)); });
  Connection connection(url);
  await("the relay owns all shards", 10ms, [&] {
    return connection.number(fmt::format("SELECT count(*) FROM waybill.cursor WHERE destination = '{}'", destination)) >
           0;
  });
  std::this_thread::sleep_for(300ms);
  commit_into(url, true, duration, times);
  std::size_t written = 0;
  for (const auto& moment : times.begun) written += moment == SteadyClock::time_point{} ? 0 : 1;
  await("all is published", 10ms, [&] { return arrived >= written; });
  runner.request_stop();
  runner.join();
  std::vector<double> took;
  for (std::size_t n = 0; n < written; ++n) took.push_back(milliseconds(times.published[n] - times.begun[n]));
  return percentiles_of(took);
}

}  // namespace

void commit_to_publish(Run& run) {
  const std::string url = run.server.migrated_database();
  Connection(url).query(fmt::format("CREATE TABLE plain AS SELECT {} FROM waybill.event", contract_columns));
  const auto duration = run.scale.quick ? 2'000ms : 6'000ms;
  Figure figure{.name = "commit_to_publish_over_commit_p99_ms", .unit = "ms", .goal = at_most(3)};
  std::vector<double> p50;
  std::vector<double> p99;
  std::vector<double> bare_p50;
  std::vector<double> bare_p99;
  for (const auto& [relayed, bare] : side_by_side<Percentiles>(
           run.scale.pairs(), [&] { return published(url, run.fresh_name(), duration); },
           [&] { return bare_commits(url, duration); })) {
    figure.samples.push_back(relayed.p99 - bare.p99);
    p50.push_back(relayed.p50);
    p99.push_back(relayed.p99);
    bare_p50.push_back(bare.p50);
    bare_p99.push_back(bare.p99);
  }
  figure.details = {{"publish p50 ms", median(p50)},
                    {"publish p99 ms", median(p99)},
                    {"bare commit p50 ms", median(bare_p50)},
                    {"bare commit p99 ms", median(bare_p99)}};
  run.report.add(std::move(figure));
  run.server.drop(url);
}

}  // namespace waybill::bench
