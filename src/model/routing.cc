#include "model/routing.h"

#include <algorithm>

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
  return any_matches(match.topic, event.topic) && any_matches(match.type, event.type) &&
         any_matches(match.tenant, event.tenant) && any_matches(match.aggregate_type, event.aggregate_type);
}

}  // namespace waybill
