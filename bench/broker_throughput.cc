// PostgreSQL to `waybill run` to a broker: how much of what the broker takes from a bare publisher; with all events of
// one key; and with another destination that is away.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "bench.h"
#include "broker.h"
#include "relay_process.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;

// To count is work for the broker, that nobody gives it beside the bare publisher.
constexpr auto count_interval = 50ms;

// How long something took, and what it cost the processor at each of the three ends.
struct BrokerEffort {
  double events = 0;
  double seconds = 0;
  double client_cpu = 0;
  double server_cpu = 0;
  double broker_cpu = 0;

  double per_second() const { return events / seconds; }
};

// What is spent between two looks.
class Meter {
 public:
  Meter(const Server& server, const Broker& broker, std::optional<pid_t> client = {})
      : server_(server), broker_(broker), client_(client), begin_(read()) {}

  BrokerEffort since_begin(long events) const {
    const BrokerEffort end = read();
    return {.events = static_cast<double>(events),
            .seconds = end.seconds - begin_.seconds,
            .client_cpu = end.client_cpu - begin_.client_cpu,
            .server_cpu = end.server_cpu - begin_.server_cpu,
            .broker_cpu = end.broker_cpu - begin_.broker_cpu};
  }

 private:
  BrokerEffort read() const {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return {.seconds = std::chrono::duration<double>(now).count(),
            .client_cpu = client_ ? cpu_seconds(*client_) : own_cpu_seconds(),
            .server_cpu = server_.cpu(),
            .broker_cpu = broker_.cpu()};
  }

  const Server& server_;
  const Broker& broker_;
  const std::optional<pid_t> client_;
  const BrokerEffort begin_;
};

// A relay sends a whole log, from the first message that the broker has to the last. `beside`: a port where nobody is;
// a second destination is there.
BrokerEffort relay(Run& run, const std::string& url, Broker& broker, long events, std::optional<int> beside = {}) {
  broker.empty();
  std::string settings = "listen = \"off\"\n";
  settings += fmt::format("[destinations.{}]\n{}", run.fresh_name(), broker.destination(broker.port()));
  if (beside)
    settings +=
        fmt::format("[destinations.{}]\n{}", run.fresh_name(), broker.destination(static_cast<std::uint16_t>(*beside)));
  RelayProcess process(run.waybill, url, {}, settings);
  const auto deadline = std::chrono::steady_clock::now() + 5min;
  std::optional<Meter> meter;
  long before = 0;
  for (long count = 0; count < events; count = broker.count()) {
    if (count > 0 && !meter) {
      before = count;
      meter.emplace(run.server, broker, process.pid());
    }
    process.require_running();
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error(fmt::format("{} has {} events of {}", broker.name(), count, events));
    std::this_thread::sleep_for(meter ? count_interval : 1ms);
  }
  if (!meter) throw std::runtime_error("too few events to measure");
  const BrokerEffort effort = meter->since_begin(events - before);
  process.stop();
  if (const long count = broker.count(); count != events)
    throw std::runtime_error(fmt::format("{} got {} messages for {} events", broker.name(), count, events));
  return effort;
}

BrokerEffort publish(Run& run, Broker& broker, int window, long events) {
  broker.empty();
  const auto publisher = broker.publisher(window);
  const Meter meter(run.server, broker);
  publisher->publish(events);
  return meter.since_begin(events);
}

// Each is tried several times, in turn: a window that had bad luck would make the ceiling too low.
int best_window(Run& run, Broker& broker, long events) {
  std::map<int, std::vector<double>> rates;
  for (int round = 0; round < 3; ++round)
    for (const int window : {64, 250, 1'000, 4'000, 16'000})
      rates[window].push_back(publish(run, broker, window, events).per_second());
  const auto best = std::max_element(rates.begin(), rates.end(), [](const auto& one, const auto& other) {
    return median(one.second) < median(other.second);
  });
  return best->first;
}

void add_costs(Figure& figure, const std::string& who, const std::vector<BrokerEffort>& efforts, bool has_server) {
  const auto add = [&](const std::string& what, const auto& value) {
    std::vector<double> values;
    for (const BrokerEffort& effort : efforts) values.push_back(value(effort));
    figure.details[who + " " + what] = median(std::move(values));
  };
  add("events/s", [](const BrokerEffort& e) { return e.per_second(); });
  add("client us/event", [](const BrokerEffort& e) { return e.client_cpu * 1e6 / e.events; });
  add("broker us/event", [](const BrokerEffort& e) { return e.broker_cpu * 1e6 / e.events; });
  if (has_server) add("server us/event", [](const BrokerEffort& e) { return e.server_cpu * 1e6 / e.events; });
}

using Pairs = std::vector<std::pair<BrokerEffort, BrokerEffort>>;

Figure ratio_of_rates(std::string name, Goal goal, const Pairs& pairs, const std::array<std::string, 2>& who,
                      bool both_relays) {
  Figure figure{.name = std::move(name), .goal = goal};
  std::vector<BrokerEffort> ours;
  std::vector<BrokerEffort> others;
  for (const auto& [our, other] : pairs) {
    figure.samples.push_back(our.per_second() / other.per_second());
    ours.push_back(our);
    others.push_back(other);
  }
  add_costs(figure, who[0], ours, true);
  add_costs(figure, who[1], others, both_relays);
  return figure;
}

void vs_ceiling(Run& run, Broker& broker, std::string name, Goal goal, int pairs) {
  const long events = run.scale.broker_backlog();
  const std::string url = run.backlog(16, events);
  publish(run, broker, 1'000, events);  // Neither side is to be the first.
  relay(run, url, broker, events);
  const int window = best_window(run, broker, events / 2);
  const auto results = side_by_side<BrokerEffort>(
      pairs, [&] { return relay(run, url, broker, events); }, [&] { return publish(run, broker, window, events); });
  Figure figure = ratio_of_rates(std::move(name), goal, results, {"relay", "bare"}, false);
  figure.details["bare window"] = window;
  run.report.add(std::move(figure));
}

void beside_down(Run& run, Broker& broker) {
  const long events = run.scale.broker_backlog();
  const std::string url = run.backlog(16, events);
  relay(run, url, broker, events);
  const int nobody = free_port();
  const auto pairs = side_by_side<BrokerEffort>(
      run.scale.many_pairs(), [&] { return relay(run, url, broker, events, nobody); },
      [&] { return relay(run, url, broker, events); });
  run.report.add(ratio_of_rates(broker.name() + "_beside_down", at_least(0.9), pairs, {"beside one", "alone"}, true));
}

// The next event of a key goes when the one before it is confirmed: the broker's answer bounds it.
void one_key(Run& run, Broker& broker) {
  const long events = run.scale.quick ? 1'000 : 5'000;
  const std::string url = run.server.migrated_database();
  Connection(url).query(
      fmt::format("INSERT INTO waybill.event (tenant, topic, type, key, version, routing_key, payload) "
                  "SELECT 'clinic', 'order.paid', 'OrderPaid', 'hot', n, 'order.paid', "
                  "(rpad('{{\"order\":\"' || n || '\",\"text\":\"', 510, 'x') || '\"}}')::json "
                  "FROM generate_series(1, {}) n",
                  events));
  const auto pairs = side_by_side<BrokerEffort>(
      run.scale.pairs(), [&] { return relay(run, url, broker, events); },
      [&] { return publish(run, broker, 1, events); });
  Figure figure = ratio_of_rates(broker.name() + "_hot_key_events_per_s", {}, pairs, {"relay", "bare"}, false);
  figure.details["share of bare, one at a time"] = median(figure.samples);
  figure.unit = "events/s";
  figure.samples.clear();
  for (const auto& [ours, bare] : pairs) figure.samples.push_back(ours.per_second());
  run.report.add(std::move(figure));
  run.server.drop(url);
}

}  // namespace

void rabbitmq_vs_ceiling(Run& run) {
  vs_ceiling(run, *rabbitmq_broker("quorum"), "rabbitmq_vs_ceiling", at_least(0.85), run.scale.many_pairs());
}

void rabbitmq_classic_vs_ceiling(Run& run) {
  vs_ceiling(run, *rabbitmq_broker("classic"), "rabbitmq_classic_vs_ceiling", {}, run.scale.pairs());
}

void nats_vs_ceiling(Run& run) {
  vs_ceiling(run, *nats_broker(), "nats_vs_ceiling", at_least(0.75), run.scale.many_pairs());
}

void rabbitmq_hot_key(Run& run) {
  one_key(run, *rabbitmq_broker("quorum"));
}

void nats_hot_key(Run& run) {
  one_key(run, *nats_broker());
}

void rabbitmq_beside_down(Run& run) {
  beside_down(run, *rabbitmq_broker("quorum"));
}

void nats_beside_down(Run& run) {
  beside_down(run, *nats_broker());
}

}  // namespace waybill::bench
