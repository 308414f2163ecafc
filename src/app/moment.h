#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "waybill/store.h"
#include "waybill/time.h"

namespace waybill::app {

enum class Direction { past, future };

// The time that a flag names: RFC 3339, or a duration ("10m") before or after `now`. Throws Error(fix_input)
// that names the flag.
Time parse_moment(std::string_view flag, std::string_view text, Time now, Direction direction);

// "3s", "12m", "5h", "9d": the largest unit that fits, for people.
std::string age_text(std::chrono::microseconds age);

// "17", or "10000+" if it is at least that.
std::string count_text(const Count& count);

}  // namespace waybill::app
