// core_bench: the figures that the engine is held to. See README.md.
#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench.h"

namespace waybill::bench {
namespace {

struct Bench {
  void (*measure)(Run&) = nullptr;
  std::vector<std::string> figures{};
};

const std::vector<Bench>& benches() {
  static const std::vector<Bench> all{
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
  };
  return all;
}

std::vector<std::string> figure_names() {
  std::vector<std::string> names;
  for (const Bench& bench : benches()) names.insert(names.end(), bench.figures.begin(), bench.figures.end());
  return names;
}

int measure(const Scale& scale, const std::string& waybill, const std::string& output,
            const std::vector<std::string>& only) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  const auto asked_for = [&](const std::string& name) {
    return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
  };
  Server server;
  Report report(scale.quick);
  Run run{.server = server, .report = report, .scale = scale, .waybill = waybill};
  bool broken = false;
  for (const Bench& bench : benches()) {
    if (std::none_of(bench.figures.begin(), bench.figures.end(), asked_for)) continue;
    try {
      bench.measure(run);
    } catch (const std::exception& error) {
      broken = true;
      fmt::print("{:<38} could not be measured: {}\n", bench.figures.front(), error.what());
    }
  }
  report.write(output, seconds());
  fmt::print("{:.0f} s; written to {}\n", seconds(), output);
  if (broken) return 2;
  return report.all_met() ? 0 : 1;
}

}  // namespace
}  // namespace waybill::bench

int main(int argc, char** argv) {
  using namespace waybill::bench;
  CLI::App app(
      "Measures the figures that the engine is held to. Exit: 0 all goals met, 1 some missed, 2 not measured.");
  Scale scale;
  std::vector<std::string> only;
  std::string output = "build/bench/core.json";
  std::string waybill = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../waybill").string();
  app.add_flag("--quick", scale.quick, "Small sizes, few pairs: shows that the bench works");
  app.add_flag("--full", scale.full, "Ten million events in the long drain, not three");
  app.add_option("--only", only, "Measure this figure only; may be repeated")->check(CLI::IsMember(figure_names()));
  app.add_option("--output", output, "Where the figures are written to, as JSON")->capture_default_str();
  app.add_option("--waybill", waybill, "The program")->check(CLI::ExistingFile)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return measure(scale, waybill, output, only);
  } catch (const std::exception& error) {
    fmt::print(stderr, "core_bench: {}\n", error.what());
    return 2;
  }
}
