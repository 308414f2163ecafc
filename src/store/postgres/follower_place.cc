#include "store/postgres/follower_place.h"

#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "waybill/error.h"

#include "model/numbered_place.h"

namespace waybill {
namespace {

bool read_number(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

}  // namespace

std::string FollowerPlace::to_string(std::int64_t last_seq) const {
  if (!walking) return fmt::format("2.{}.{}", history, settled.to_compact());
  return fmt::format("2.{}.{}.{}.{}.{}.{}", history, settled.to_compact(), walking->to_compact(), last_seq, floor,
                     ceiling);
}

FollowerPlace FollowerPlace::parse(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find('.');
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  const bool is_inside = parts.size() == 7;
  const auto settled = parts.size() == 3 || is_inside ? Snapshot::parse_compact(parts[2]) : std::nullopt;
  if (parts[0] != "2" || !settled) throw Error(Remedy::fix_input, std::string(no_place));
  FollowerPlace place{.history = std::string(parts[1]), .settled = *settled};
  if (!is_inside) return place;
  place.walking = Snapshot::parse_compact(parts[3]);
  if (!place.walking || place.walking->xmax < place.settled.xmax || !read_number(parts[4], place.last) ||
      !read_number(parts[5], place.floor) || !read_number(parts[6], place.ceiling))
    throw Error(Remedy::fix_input, std::string(no_place));
  return place;
}

}  // namespace waybill
