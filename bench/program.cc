#include "program.h"

#include <algorithm>
#include <exception>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace waybill::bench {
namespace {

std::vector<std::string> figure_names(const Program& program) {
  std::vector<std::string> names;
  for (const Bench& bench : program.benches) names.insert(names.end(), bench.figures.begin(), bench.figures.end());
  return names;
}

int measure(const Program& program, const Scale& scale, const std::string& waybill, const std::string& output,
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
  for (const Bench& bench : program.benches) {
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

const std::string& Run::backlog(int shards, long events) {
  auto& url = backlogs[{shards, events}];
  if (url.empty()) {
    url = server.migrated_database(shards);
    load_events(url, events);
  }
  return url;
}

std::filesystem::path own_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

int run_program(const Program& program, int argc, char** argv) {
  CLI::App app(program.purpose + " Exit: 0 all goals met, 1 some missed, 2 not measured.");
  Scale scale;
  std::vector<std::string> only;
  std::string output = program.output;
  std::string waybill = (own_folder() / "../waybill").string();
  app.add_flag("--quick", scale.quick, "Small sizes, few pairs: shows that the bench works");
  if (program.add_flags) program.add_flags(app, scale);
  app.add_option("--only", only, "Measure this figure only; may be repeated")
      ->check(CLI::IsMember(figure_names(program)));
  app.add_option("--output", output, "Where the figures are written to, as JSON")->capture_default_str();
  app.add_option("--waybill", waybill, "The program")->check(CLI::ExistingFile)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return measure(program, scale, waybill, output, only);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program.name, error.what());
    return 2;
  }
}

}  // namespace waybill::bench
