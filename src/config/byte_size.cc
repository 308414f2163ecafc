#include "config/byte_size.h"

#include <array>
#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace waybill::config {
namespace {

struct Unit {
  std::string_view name{};
  std::int64_t bytes = 1;
};
constexpr std::array units{Unit{"B", 1}, Unit{"KiB", 1 << 10}, Unit{"MiB", 1 << 20}, Unit{"GiB", 1 << 30}};

}  // namespace

std::optional<std::int64_t> parse_byte_size(std::string_view text) {
  std::int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || count < 0) return std::nullopt;
  const std::string_view name(rest, static_cast<std::size_t>(end - rest));
  for (const auto& unit : units) {
    if (unit.name != name) continue;
    if (count > std::numeric_limits<std::int64_t>::max() / unit.bytes) return std::nullopt;
    return count * unit.bytes;
  }
  return std::nullopt;
}

std::string byte_size_text(std::int64_t bytes) {
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit)
    if (bytes >= unit->bytes && bytes % unit->bytes == 0) return fmt::format("{}{}", bytes / unit->bytes, unit->name);
  return fmt::format("{}B", bytes);
}

}  // namespace waybill::config
