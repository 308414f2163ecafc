// The death of queue tables: somebody holds a snapshot, no dead row may be removed, every poll walks over all of them.
//
// Measured is how many events a second of processor time moves, the relay's and that of the server's processes which
// serve it: what a relay could sustain at most. It is compared between the beginning and the end of a run at a steady
// rate under a held snapshot, second by second.
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "waybill/enqueue.h"

#include "await.h"
#include "bench.h"
#include "relay_process.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;

constexpr int rate = 1'000;
constexpr int writers = 4;

std::vector<pid_t> servants_of_relays(Connection& connection) {
  std::vector<pid_t> processes;
  for (const auto& row : connection.query("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND "
                                          "application_name LIKE 'waybill %'"))
    processes.push_back(std::stoi(row[0]));
  return processes;
}

PacedClient enqueuer(const std::string& url) {
  auto connection = std::make_shared<Connection>(url);
  connection->prepare("enqueue", enqueue_statement(event_number(1), Dialect::postgresql).sql);
  return [connection](long n) {
    Connection::Parameters parameters;
    for (const Parameter& parameter : enqueue_statement(event_number(n), Dialect::postgresql).parameters)
      parameters.push_back(parameter.value);
    connection->run("enqueue", parameters);
  };
}

}  // namespace

void pinned_xmin(Run& run) {
  const int seconds = run.scale.quick ? 15 : 125;
  const std::size_t part = run.scale.quick ? 4 : 20;
  const std::size_t warm_up = run.scale.quick ? 2 : 5;
  const std::string url = run.server.migrated_database();
  Connection connection(url);
  Connection holder(url);
  holder.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  holder.query("SELECT count(*) FROM waybill.event");

  RelayProcess relay(run.waybill, url, {"all"});
  await("a relay owns all shards", 20ms, [&] { return shards_owned(connection)[relay.name()].size() == 16; });
  std::vector<pid_t> servants;
  await("a connection for the heartbeat and one for the destination", 20ms, [&] {
    servants = servants_of_relays(connection);
    return servants.size() == 2;
  });
  const auto cost = [&] {
    double sum = cpu_seconds(relay.pid());
    for (const pid_t servant : servants) sum += cpu_seconds(servant);
    return sum;
  };
  std::vector<double> costs{cost()};  // at each second
  {
    std::jthread producers(
        [&] { pace(writers, rate, std::chrono::seconds(seconds), [&](int) { return enqueuer(url); }); });
    const auto begin = std::chrono::steady_clock::now();
    for (int second = 1; second <= seconds; ++second) {
      std::this_thread::sleep_until(begin + std::chrono::seconds(second));
      costs.push_back(cost());
    }
  }
  const double written = connection.number("SELECT count(*) FROM waybill.event");
  await("all is settled", 100ms,
        [&] { return connection.number("SELECT coalesce(sum(count), 0) FROM waybill.cursor") >= written; });
  relay.stop();
  holder.query("COMMIT");

  Figure drop{.name = "pinned_xmin_drop", .goal = at_most(0.10)};
  std::vector<double> first;
  std::vector<double> last;
  for (std::size_t i = 0; i < part; ++i) {
    const std::size_t late = costs.size() - 1 - part + i;
    first.push_back(costs[warm_up + i + 1] - costs[warm_up + i]);
    last.push_back(costs[late + 1] - costs[late]);
    drop.samples.push_back(1 - first.back() / last.back());
  }
  drop.value = 1 - median(first) / median(last);
  drop.details = {{"first us/event", median(first) * 1e6 / rate},
                  {"last us/event", median(last) * 1e6 / rate},
                  {"seconds", static_cast<double>(seconds)}};
  run.report.add(std::move(drop));
  run.server.drop(url);
}

}  // namespace waybill::bench
