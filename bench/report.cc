#include "report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace waybill::bench {
namespace {

double load_average() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : -1;
}

std::string short_text(double value) {
  if (std::abs(value) >= 1000) return fmt::format("{:.0f}", value);
  return std::abs(value) >= 10 ? fmt::format("{:.1f}", value) : fmt::format("{:.3f}", value);
}

std::string goal_text(const Goal& goal) {
  if (goal.kind == Goal::Kind::none) return "";
  return fmt::format("{} {:g}", goal.kind == Goal::Kind::at_least ? ">=" : "<=", goal.value);
}

nlohmann::json goal_json(const Goal& goal) {
  if (goal.kind == Goal::Kind::none) return nullptr;
  return {{goal.kind == Goal::Kind::at_least ? "at_least" : "at_most", goal.value}};
}

}  // namespace

double median(std::vector<double> samples) {
  if (samples.empty()) throw std::runtime_error("no samples");
  std::sort(samples.begin(), samples.end());
  const std::size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
}

double percentile(std::vector<double> samples, double share) {
  if (samples.empty()) throw std::runtime_error("no samples");
  std::sort(samples.begin(), samples.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(samples.size())));
  return samples[std::clamp<std::size_t>(rank, 1, samples.size()) - 1];
}

double Figure::judged() const {
  return value ? *value : median(samples);
}

bool Figure::met() const {
  switch (goal.kind) {
    case Goal::Kind::at_least:
      return judged() >= goal.value;
    case Goal::Kind::at_most:
      return judged() <= goal.value;
    case Goal::Kind::none:
      break;
  }
  return true;
}

void Report::add(Figure figure) {
  if (entries_.empty())
    fmt::print("{:<38} {:>9} {:>9} {:>9} {:>4} {:>8}  {:<6} {:>5}\n", "figure", "value", "min", "max", "n", "goal", "",
               "load");
  const auto [least, most] = std::minmax_element(figure.samples.begin(), figure.samples.end());
  const double load = load_average();
  const std::string_view verdict = figure.goal.kind == Goal::Kind::none ? "" : figure.met() ? "met" : "MISSED";
  fmt::print("{:<38} {:>9} {:>9} {:>9} {:>4} {:>8}  {:<6} {:>5.1f}\n", figure.name, short_text(figure.judged()),
             short_text(*least), short_text(*most), figure.samples.size(), goal_text(figure.goal), verdict, load);
  for (const auto& [name, value] : figure.details) fmt::print("    {:<34} {:>9}\n", name, short_text(value));
  std::fflush(stdout);
  entries_.push_back({std::move(figure), load});
}

bool Report::all_met() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.figure.met(); });
}

void Report::write(const std::string& path, double seconds) const {
  nlohmann::json figures = nlohmann::json::array();
  for (const auto& [figure, load] : entries_) {
    const auto [least, most] = std::minmax_element(figure.samples.begin(), figure.samples.end());
    figures.push_back({{"name", figure.name},
                       {"unit", figure.unit.empty() ? "ratio" : figure.unit},
                       {"value", figure.judged()},
                       {"statistic", figure.value ? "percentile" : "median"},
                       {"min", *least},
                       {"max", *most},
                       {"samples", figure.samples},
                       {"goal", goal_json(figure.goal)},
                       {"met", figure.met()},
                       {"load_average", load},
                       {"details", figure.details}});
  }
  const nlohmann::json document = {{"quick", quick_},
                                   {"cores", std::thread::hardware_concurrency()},
                                   {"seconds", seconds},
                                   {"figures", std::move(figures)}};
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder);
  std::ofstream file(path);
  file << document.dump(2) << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace waybill::bench
