#include "base/metrics.h"

#include <algorithm>

#include <fmt/format.h>

namespace waybill {
namespace {

std::string_view to_string(Exposition::Type type) {
  switch (type) {
    case Exposition::Type::counter:
      return "counter";
    case Exposition::Type::gauge:
      return "gauge";
    case Exposition::Type::histogram:
      return "histogram";
  }
  return "untyped";
}

// Quotes are special in a label, but not in a help text.
void append_escaped(std::string& text, std::string_view value, bool quoted) {
  for (const char c : value) {
    if (c == '\\') {
      text += "\\\\";
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '"' && quoted) {
      text += "\\\"";
    } else {
      text += c;
    }
  }
}

}  // namespace

void Histogram::observe(std::chrono::microseconds took) noexcept {
  took = std::max(took, std::chrono::microseconds(0));
  const auto* const bound = std::lower_bound(bounds.begin(), bounds.end(), took);
  counts_[static_cast<std::size_t>(bound - bounds.begin())].add();
  sum_.add(static_cast<std::uint64_t>(took.count()));
}

std::array<std::uint64_t, Histogram::bounds.size() + 1> Histogram::counts() const noexcept {
  std::array<std::uint64_t, bounds.size() + 1> counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = counts_[i].value();
  return counts;
}

std::chrono::microseconds Histogram::sum() const noexcept {
  return std::chrono::microseconds(static_cast<std::int64_t>(sum_.value()));
}

void Exposition::family(std::string_view name, Type type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {} ", name);
  append_escaped(text_, help, false);
  text_ += fmt::format("\n# TYPE {} {}\n", name, to_string(type));
}

void Exposition::sample(Labels labels, std::uint64_t value) {
  line("", labels, "", fmt::format("{}", value));
}

void Exposition::sample(Labels labels, std::int64_t value) {
  line("", labels, "", fmt::format("{}", value));
}

void Exposition::sample(Labels labels, double value) {
  line("", labels, "", fmt::format("{}", value));
}

void Exposition::histogram(Labels labels, std::span<const Bucket> buckets, std::uint64_t count, double sum) {
  std::uint64_t upto = 0;
  for (const Bucket& bucket : buckets) {
    upto += bucket.count;
    line("_bucket", labels, fmt::format("{}", bucket.upto), fmt::format("{}", upto));
  }
  line("_bucket", labels, "+Inf", fmt::format("{}", count));
  line("_sum", labels, "", fmt::format("{}", sum));
  line("_count", labels, "", fmt::format("{}", count));
}

void Exposition::line(std::string_view suffix, Labels labels, std::string_view upto, std::string_view value) {
  text_ += name_;
  text_ += suffix;
  char before = '{';
  const auto add = [&](std::string_view name, std::string_view label) {
    text_ += std::exchange(before, ',');
    text_ += name;
    text_ += "=\"";
    append_escaped(text_, label, true);
    text_ += '"';
  };
  for (const auto& [name, label] : labels) add(name, label);
  if (!upto.empty()) add("le", upto);
  if (before == ',') text_ += '}';
  text_ += ' ';
  text_ += value;
  text_ += '\n';
}

}  // namespace waybill
