// How fast a relay works off a backlog: against the fastest way to get the same rows out of the server, and with the
// log split into many shards against one.
#include "drain.h"

#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "waybill/postgres.h"
#include "waybill/relay.h"

#include "await.h"
#include "sink/null/null_sink.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;

void add_costs(Figure& figure, const std::string& who, const std::vector<Effort>& efforts) {
  const auto median_of = [&](const auto& value) {
    std::vector<double> values;
    for (const Effort& effort : efforts) values.push_back(value(effort));
    return median(std::move(values));
  };
  const auto per_event = [](double cpu, const Effort& effort) {
    return cpu * 1e6 / static_cast<double>(effort.events);
  };
  figure.details[who + " events/s"] = median_of([](const Effort& effort) { return effort.per_second(); });
  figure.details[who + " client us/event"] = median_of([&](const Effort& e) { return per_event(e.client_cpu, e); });
  figure.details[who + " server us/event"] = median_of([&](const Effort& e) { return per_event(e.server_cpu, e); });
}

}  // namespace

Effort drain(const Server& server, const std::string& url, const std::string& destination, long events) {
  const auto store = postgres_store({.url = url});
  Relay relay(*store, {});
  relay.add({.name = destination}, null_sink());
  Effort effort = effort_of(server, [&] {
    relay.drain({});
    return static_cast<long>(relay.counts(destination).delivered);
  });
  if (effort.events != events)
    throw std::runtime_error(fmt::format("the relay delivered {} events of {}", effort.events, events));
  return effort;
}

Effort drain_running(const Server& server, const std::string& url, const std::string& destination, long events) {
  const auto store = postgres_store({.url = url});
  Relay relay(*store, {});
  relay.add({.name = destination, .start = Start::now}, null_sink());
  std::jthread runner([&](std::stop_token stop) { relay.run(std::move(stop)); });
  Connection connection(url);
  await("the destination is there", 10ms, [&] {
    return connection.number(fmt::format("SELECT count(*) FROM waybill.cursor WHERE destination = '{}'", destination)) >
           0;
  });
  connection.query("BEGIN");
  connection.query(fmt::format("INSERT INTO waybill.event ({}) SELECT {} FROM generate_series(1, {}) n",
                               contract_columns, event_expressions, events));
  connection.query("ANALYZE waybill.event");
  Effort effort{.events = events, .client_cpu = -own_cpu_seconds(), .server_cpu = -server.cpu()};
  connection.query("COMMIT");
  const auto begin = std::chrono::steady_clock::now();
  relay.hint();
  await("all is delivered", 1ms, [&] { return std::cmp_equal(relay.counts(destination).delivered, events); });
  effort.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  effort.client_cpu += own_cpu_seconds();
  effort.server_cpu += server.cpu();
  runner.request_stop();
  return effort;
}

Figure ratio_of_rates(std::string name, Goal goal, const std::vector<std::pair<Effort, Effort>>& pairs,
                      const std::string& other_name) {
  Figure figure{.name = std::move(name), .goal = goal};
  std::vector<Effort> ours;
  std::vector<Effort> others;
  for (const auto& [our, other] : pairs) {
    figure.samples.push_back(our.per_second() / other.per_second());
    ours.push_back(our);
    others.push_back(other);
  }
  add_costs(figure, "relay", ours);
  add_costs(figure, other_name, others);
  return figure;
}

void drain_vs_copy(Run& run) {
  const long events = run.scale.backlog();
  const std::string url = run.backlog(16, events);
  Connection connection(url);
  const std::string copy = "COPY (SELECT " + relay_columns + " FROM waybill.event) TO STDOUT (FORMAT binary)";
  const auto pairs = side_by_side<Effort>(
      run.scale.pairs(), [&] { return drain(run.server, url, run.fresh_name(), events); },
      [&] { return effort_of(run.server, [&] { return connection.copy_out(copy); }); });
  for (const auto& [relay, copied] : pairs)
    if (copied.events != events) throw std::runtime_error("COPY brought another number of rows");
  run.report.add(ratio_of_rates("drain_vs_copy", at_least(0.5), pairs, "copy"));
}

void drain_16_shards_vs_1(Run& run) {
  const long events = run.scale.backlog();
  const std::string many = run.backlog(16, events);
  const std::string one = run.backlog(1, events);
  const auto pairs = side_by_side<Effort>(
      run.scale.pairs(), [&] { return drain(run.server, many, run.fresh_name(), events); },
      [&] { return drain(run.server, one, run.fresh_name(), events); });
  run.report.add(ratio_of_rates("drain_16_shards_vs_1", at_least(0.8), pairs, "one shard"));
}

}  // namespace waybill::bench
