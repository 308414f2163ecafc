#include "app/moment.h"

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

}  // namespace waybill::app
