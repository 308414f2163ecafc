#include "model/routing.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace waybill {
namespace {

bool any_matches(const std::vector<std::string>& patterns, std::string_view text) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) { return matches(pattern, text); });
}

struct Rule {
  std::string_view field{};
  std::vector<std::string> Match::*patterns = nullptr;
  std::string_view EventView::*value = nullptr;
};
constexpr std::array rules{Rule{"topic", &Match::topic, &EventView::topic},
                           Rule{"type", &Match::type, &EventView::type},
                           Rule{"tenant", &Match::tenant, &EventView::tenant},
                           Rule{"aggregate_type", &Match::aggregate_type, &EventView::aggregate_type}};

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // the last '*' seen, and how much text it stands for at present
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool matches(const Match& match, const EventView& event) {
  return std::all_of(rules.begin(), rules.end(),
                     [&](const Rule& rule) { return any_matches(match.*rule.patterns, event.*rule.value); });
}

std::string mismatch(const Match& match, const EventView& event) {
  for (const Rule& rule : rules)
    if (!any_matches(match.*rule.patterns, event.*rule.value))
      return fmt::format("{} '{}' is none of '{}'", rule.field, event.*rule.value,
                         fmt::join(match.*rule.patterns, "', '"));
  return {};
}

}  // namespace waybill
