#include "model/numbered_place.h"

#include <charconv>

#include <fmt/format.h>

#include "waybill/error.h"

namespace waybill {

std::string numbered_place(std::string_view history, std::int64_t number) {
  return fmt::format("{}.{}", history, number);
}

std::int64_t parse_numbered_place(std::string_view place, std::string_view history, std::int64_t last) {
  if (place.empty()) return 0;
  const auto dot = place.find('.');
  const std::string_view digits = dot == std::string_view::npos ? "" : place.substr(dot + 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0)
    throw Error(Remedy::fix_input, std::string(no_place));
  if (place.substr(0, dot) != history || number > last)
    throw Error(Remedy::fix_input, std::string(place_of_another_history));
  return number;
}

}  // namespace waybill
