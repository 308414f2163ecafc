// failure_bench: what is promised when things fail. See README.md.
#include <CLI/CLI.hpp>

#include "program.h"

int main(int argc, char** argv) {
  using namespace waybill::bench;
  return run_program(
      {
          .name = "failure_bench",
          .purpose = "Measures what is promised when things fail.",
          .output = "build/bench/failures.json",
          .benches =
              {
                  {flaky_destination,
                   {"lost", "out_of_order", "lag_p95_s", "retry_success_percent", "duplicate_percent"}},
                  {hot_key,
                   {"hot_key_others_throughput", "hot_key_others_throughput_free", "hot_key_out_of_order",
                    "hot_key_rss_growth_mib", "hot_key_drain_s"}},
                  {dump_beside_cleaning,
                   {"dump_commit_p99", "dump_commit_p99_by_locks", "dump_producers_blocked", "dump_lost"}},
              },
          .add_flags =
              [](CLI::App& app, Scale& scale) {
                app.add_option("--flaky-seconds", scale.flaky_seconds, "How long events go to a flaky destination");
                app.add_option("--followers", scale.followers, "How many events wait behind the hot key's first");
                app.add_option("--window-seconds", scale.window_seconds, "How long each look at commits takes");
              },
      },
      argc, argv);
}
