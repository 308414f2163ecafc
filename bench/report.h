#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace waybill::bench {

// What a figure is held to.
struct Goal {
  enum class Kind { none, at_least, at_most };
  Kind kind = Kind::none;
  double value = 0;
};
inline Goal at_least(double value) {
  return {Goal::Kind::at_least, value};
}
inline Goal at_most(double value) {
  return {Goal::Kind::at_most, value};
}

// One measured figure: the median of its samples, unless `value` says otherwise (a percentile).
struct Figure {
  std::string name{};
  std::string unit{};  // Empty: a ratio.
  Goal goal{};
  std::vector<double> samples{};
  std::optional<double> value{};
  std::map<std::string, double> details{};  // What the figure was made of; medians.

  double judged() const;
  bool met() const;
};

double median(std::vector<double> samples);
// The least value that at least `share` of the samples do not exceed; nearest rank.
double percentile(std::vector<double> samples, double share);

// Prints each figure as it comes, and keeps them for the file.
class Report {
 public:
  explicit Report(bool quick) : quick_(quick) {}

  void add(Figure figure);
  void write(const std::string& path, double seconds) const;
  bool all_met() const;

 private:
  const bool quick_;
  struct Entry {
    Figure figure;
    double load;  // The machine's load average when the figure was done: what else went on.
  };
  std::vector<Entry> entries_;
};

}  // namespace waybill::bench
