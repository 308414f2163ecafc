// The death of queue tables: somebody holds a snapshot, no dead row may be removed, every poll walks over all of them.
//
// Measured is the processor time of one statement of the relay's, the relay's and that of the server's processes which
// serve it, between the beginning and the end of a run at a steady rate under a held snapshot. By the statement and not
// by the event: how many events a look at the log brings depends on what else the machine does.
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "await.h"
#include "bench.h"
#include "relay_process.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;

constexpr int rate = 1'000;
constexpr int writers = 4;

// The two that are there as long as a relay is; whoever reads figures now and then is not among them.
std::vector<pid_t> servants_of_relays(Connection& connection) {
  std::vector<pid_t> processes;
  for (const auto& row : connection.query("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND "
                                          "application_name IN ('waybill keeper', 'waybill relay all')"))
    processes.push_back(std::stoi(row[0]));
  return processes;
}

struct Reading {
  double cpu = 0;
  double statements = 0;
};

PacedClient enqueuer(const std::string& url) {
  auto connection = std::make_shared<Connection>(url);
  connection->prepare("enqueue", enqueue_sql());
  return [connection](long n) { connection->run("enqueue", enqueue_parameters(event_number(n))); };
}

}  // namespace

void pinned_xmin(Run& run) {
  const int bins = run.scale.quick ? 8 : 31;
  const auto bin = run.scale.quick ? 2s : 4s;
  const std::size_t part = run.scale.quick ? 2 : 5;  // Of the bins, at either end; the very first is a warm-up.
  // A server of its own: counting every statement costs the other figures something.
  Server server({"shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track=top"});
  const std::string url = server.migrated_database();
  Connection connection(url);
  connection.query("CREATE EXTENSION pg_stat_statements");
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
  const auto reading = [&] {
    Reading now{.cpu = cpu_seconds(relay.pid())};
    for (const pid_t servant : servants) now.cpu += cpu_seconds(servant);
    now.statements = connection.number(
        "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query NOT LIKE 'INSERT INTO \"waybill\".event %' "
        "AND query NOT LIKE '%pg_stat_statements%'");
    return now;
  };
  std::vector<Reading> readings{reading()};
  {
    std::jthread producers([&] { pace(writers, rate, bin * bins, [&](int) { return enqueuer(url); }); });
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 1; i <= bins; ++i) {
      std::this_thread::sleep_until(begin + bin * i);
      readings.push_back(reading());
    }
  }
  const double written = connection.number("SELECT count(*) FROM waybill.event");
  await("all is settled", 100ms,
        [&] { return connection.number("SELECT coalesce(sum(count), 0) FROM waybill.cursor") >= written; });
  relay.stop();
  holder.query("COMMIT");

  Figure drop{.name = "pinned_xmin_drop", .goal = at_most(0.10)};
  const auto cost = [&](std::size_t i) {
    return 1e6 * (readings[i + 1].cpu - readings[i].cpu) / (readings[i + 1].statements - readings[i].statements);
  };
  std::vector<double> first;
  std::vector<double> last;
  for (std::size_t i = 0; i < part; ++i) {
    first.push_back(cost(1 + i));
    last.push_back(cost(readings.size() - 1 - part + i));
    drop.samples.push_back(1 - first.back() / last.back());
  }
  drop.value = 1 - median(first) / median(last);
  drop.details = {{"first us/statement", median(first)},
                  {"last us/statement", median(last)},
                  {"events", written},
                  {"statements", readings.back().statements - readings.front().statements}};
  run.report.add(std::move(drop));
}

}  // namespace waybill::bench
