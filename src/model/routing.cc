#include "model/routing.h"

#include <algorithm>

#include <fmt/format.h>

namespace waybill {
namespace {

bool any_matches(const std::vector<std::string>& patterns, std::string_view text) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) { return matches(pattern, text); });
}

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
  return std::all_of(match_fields.begin(), match_fields.end(),
                     [&](const MatchField& field) { return any_matches(match.*field.patterns, event.*field.value); });
}

Match canonical(Match match) {
  for (const MatchField& field : match_fields) {
    auto& patterns = match.*field.patterns;
    std::sort(patterns.begin(), patterns.end());
    patterns.erase(std::unique(patterns.begin(), patterns.end()), patterns.end());
  }
  return match;
}

std::string rules_text(const Match& match) {
  std::string text;
  for (const MatchField& field : match_fields) {
    const auto& patterns = match.*field.patterns;
    if (patterns.empty()) continue;
    text += fmt::format("{}{} '{}'", text.empty() ? "" : " and ", field.name, fmt::join(patterns, "', '"));
  }
  return text.empty() ? "every event" : text;
}

std::string mismatch(const Match& match, const EventView& event) {
  for (const MatchField& field : match_fields)
    if (!any_matches(match.*field.patterns, event.*field.value))
      return fmt::format("{} '{}' is none of '{}'", field.name, event.*field.value,
                         fmt::join(match.*field.patterns, "', '"));
  return {};
}

}  // namespace waybill
