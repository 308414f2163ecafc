// What a relay costs that has nothing to do: three destinations, an empty log.
#include <thread>

#include "await.h"
#include "bench.h"
#include "relay_process.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

void idle(Run& run) {
  // A server of its own: counting every statement costs the other figures something.
  Server server({"shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track=top"});
  const std::string url = server.migrated_database();
  Connection connection(url);
  connection.query("CREATE EXTENSION pg_stat_statements");
  const std::string statements =
      "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'";

  RelayProcess relay(run.waybill, url, {"mail", "orders", "search"});
  await("a relay owns all shards", 50ms,
        [&] { return connection.number("SELECT count(*) FROM waybill.lease WHERE owner IS NOT NULL") == 48; });
  std::this_thread::sleep_for(5s);
  Figure cpu{.name = "idle_cpu_percent", .unit = "%", .goal = at_most(1)};
  Figure rate{.name = "idle_statements_per_s", .unit = "1/s", .goal = at_most(2)};
  const auto window = run.scale.quick ? 2s : 6s;
  const int windows = run.scale.quick ? 2 : 5;
  double server_cpu = -server.cpu();
  for (int i = 0; i < windows; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const double calls = connection.number(statements);
    const double used = cpu_seconds(relay.pid());
    std::this_thread::sleep_for(window);
    const double seconds = seconds_since(begin);
    cpu.samples.push_back(100 * (cpu_seconds(relay.pid()) - used) / seconds);
    rate.samples.push_back((connection.number(statements) - calls) / seconds);
  }
  server_cpu += server.cpu();
  relay.stop();
  cpu.details["server cpu percent"] = 100 * server_cpu / (windows * std::chrono::duration<double>(window).count());
  run.report.add(std::move(cpu));
  run.report.add(std::move(rate));
}

}  // namespace waybill::bench
