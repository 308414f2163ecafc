#pragma once

#include <string>
#include <string_view>

#include "waybill/time.h"

namespace waybill::app {

enum class Direction { past, future };

// The time that a flag names: RFC 3339, or a duration ("10m") before or after `now`. Throws Error(fix_input)
// that names the flag.
Time parse_moment(std::string_view flag, std::string_view text, Time now, Direction direction);

}  // namespace waybill::app
