// core_bench: the figures that the engine is held to. See README.md.
#include <CLI/CLI.hpp>

#include "program.h"

int main(int argc, char** argv) {
  using namespace waybill::bench;
  return run_program(
      {
          .name = "core_bench",
          .purpose = "Measures the figures that the engine is held to.",
          .output = "build/bench/core.json",
          .benches =
              {
                  {drain_vs_copy, {"drain_vs_copy"}},
                  {drain_16_shards_vs_1, {"drain_16_shards_vs_1"}},
                  {drain_vs_seed, {"drain_vs_seed"}},
                  {drain_vs_skip_locked, {"drain_vs_skip_locked"}},
                  {enqueue_vs_second_insert, {"enqueue_vs_second_insert", "enqueue_vs_second_insert_no_relay"}},
                  {wake_commits_32_writers, {"wake_commits_32_writers"}},
                  {long_drain, {"last_vs_first_million", "rss_growth_mib"}},
                  {pinned_xmin, {"pinned_xmin_drop"}},
                  {idle, {"idle_cpu_percent", "idle_statements_per_s"}},
                  {commit_to_publish, {"commit_to_publish_over_commit_p99_ms"}},
                  {takeover, {"takeover_over_lease_p99_s"}},
              },
          .add_flags =
              [](CLI::App& app, Scale& scale) {
                app.add_flag("--full", scale.full, "Ten million events in the long drain, not three");
              },
      },
      argc, argv);
}
