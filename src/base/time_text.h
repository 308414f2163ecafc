#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "waybill/time.h"

namespace waybill {

// "2026-02-19T08:30:00.123456Z": RFC 3339 in UTC, always with six digits, so that texts sort as times do.
std::string to_rfc3339(Time time);

// The time that RFC 3339 text names, with any offset and up to nine digits (the rest cut off), or nothing.
std::optional<Time> parse_rfc3339(std::string_view text);

// "1500ms", "2s", "10m", "36h", "7d"; whole numbers, one unit. Nothing if it is none or too large.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

// The shortest text that parse_duration reads back as `duration`.
std::string to_text(std::chrono::milliseconds duration);

// "3s", "12m", "5h", "9d": the largest unit that fits, for people.
std::string age_text(std::chrono::microseconds age);

}  // namespace waybill
