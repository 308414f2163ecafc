#include "app/moment.h"

#include <algorithm>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/time_text.h"

namespace waybill::app {

Time parse_moment(std::string_view flag, std::string_view text, Time now, Direction direction) {
  if (const auto time = parse_rfc3339(text)) return *time;
  if (const auto duration = parse_duration(text))
    return direction == Direction::past ? now - *duration : now + *duration;
  throw Error(Remedy::fix_input,
              fmt::format("{} '{}' is no time; write 2026-02-19T08:30:00Z, or 10m for ten minutes {}", flag, text,
                          direction == Direction::past ? "ago" : "from now"));
}

std::string age_text(std::chrono::microseconds age) {
  const auto seconds = std::max<std::int64_t>(0, std::chrono::floor<std::chrono::seconds>(age).count());
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{}m", seconds / 60);
  if (seconds < 2 * 86'400) return fmt::format("{}h", seconds / 3600);
  return fmt::format("{}d", seconds / 86'400);
}

std::string count_text(const Count& count) {
  return fmt::format("{}{}", count.value, count.exact ? "" : "+");
}

}  // namespace waybill::app
