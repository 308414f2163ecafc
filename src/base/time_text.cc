#include "base/time_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

namespace waybill {
namespace {

// Reads exactly `digits` digits at the front of `text` and drops them.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int value = 0;
  for (const char c : text.substr(0, digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool take_char(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<std::chrono::sys_days> take_date(std::string_view& text) {
  const auto year = take_number(text, 4);
  if (!year || !take_char(text, "-")) return std::nullopt;
  const auto month = take_number(text, 2);
  if (!month || !take_char(text, "-")) return std::nullopt;
  const auto day = take_number(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date);
}

std::optional<std::chrono::microseconds> take_fraction(std::string_view& text) {
  std::int64_t micros = 0;
  std::int64_t unit = 100'000;
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    micros += (text[digits] - '0') * unit;
    unit /= 10;
    ++digits;
  }
  if (digits == 0 || digits > 9) return std::nullopt;
  text.remove_prefix(digits);
  return std::chrono::microseconds(micros);
}

std::optional<std::chrono::minutes> take_offset(std::string_view& text) {
  if (take_char(text, "Zz")) return std::chrono::minutes(0);
  const bool west = !text.empty() && text.front() == '-';
  if (!take_char(text, "+-")) return std::nullopt;
  const auto hours = take_number(text, 2);
  if (!hours || *hours > 23 || !take_char(text, ":")) return std::nullopt;
  const auto minutes = take_number(text, 2);
  if (!minutes || *minutes > 59) return std::nullopt;
  const std::chrono::minutes offset(*hours * 60 + *minutes);
  return west ? -offset : offset;
}

struct Unit {
  std::string_view name;
  std::int64_t milliseconds;
};
constexpr std::array units{Unit{"ms", 1}, Unit{"s", 1000}, Unit{"m", 60'000}, Unit{"h", 3'600'000},
                           Unit{"d", 86'400'000}};

}  // namespace

std::string to_rfc3339(Time time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  const int year = static_cast<int>(date.year());
  std::string text = "0000-00-00T00:00:00.000000Z";
  const auto put = [&](std::size_t end, std::size_t digits, std::int64_t value) {
    for (; digits > 0; --digits, value /= 10) text[--end] = static_cast<char>('0' + std::abs(value % 10));
  };
  put(4, 4, year);
  put(7, 2, static_cast<unsigned>(date.month()));
  put(10, 2, static_cast<unsigned>(date.day()));
  put(13, 2, clock.hours().count());
  put(16, 2, clock.minutes().count());
  put(19, 2, clock.seconds().count());
  put(26, 6, clock.subseconds().count());
  if (year < 0 || year > 9999) text.replace(0, 4, fmt::format("{:04}", year));  // No RFC 3339 any more, but the truth.
  return text;
}

std::optional<Time> parse_rfc3339(std::string_view text) {
  const auto day = take_date(text);
  if (!day || !take_char(text, "Tt ")) return std::nullopt;
  const auto hour = take_number(text, 2);
  if (!hour || *hour > 23 || !take_char(text, ":")) return std::nullopt;
  const auto minute = take_number(text, 2);
  if (!minute || *minute > 59 || !take_char(text, ":")) return std::nullopt;
  const auto second = take_number(text, 2);
  if (!second || *second > 59) return std::nullopt;
  std::chrono::microseconds fraction{0};
  if (take_char(text, ".")) {
    const auto taken = take_fraction(text);
    if (!taken) return std::nullopt;
    fraction = *taken;
  }
  const auto offset = take_offset(text);
  if (!offset || !text.empty()) return std::nullopt;
  return Time(*day + std::chrono::hours(*hour) + std::chrono::minutes(*minute) + std::chrono::seconds(*second) +
              fraction - *offset);
}

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  std::int64_t count = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || count < 0) return std::nullopt;
  const std::string_view name(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  for (const auto& unit : units) {
    if (unit.name != name) continue;
    // A hundred years is more than anyone means, and keeps every sum of two durations within its type.
    if (count > 36'525 * 86'400'000LL / unit.milliseconds) return std::nullopt;
    return std::chrono::milliseconds(count * unit.milliseconds);
  }
  return std::nullopt;
}

std::string to_text(std::chrono::milliseconds duration) {
  if (duration.count() == 0) return "0s";
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit)
    if (duration.count() % unit->milliseconds == 0)
      return fmt::format("{}{}", duration.count() / unit->milliseconds, unit->name);
  return fmt::format("{}ms", duration.count());
}

std::string age_text(std::chrono::microseconds age) {
  const auto seconds = std::max<std::int64_t>(0, std::chrono::floor<std::chrono::seconds>(age).count());
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{}m", seconds / 60);
  if (seconds < 2 * 86'400) return fmt::format("{}h", seconds / 3600);
  return fmt::format("{}d", seconds / 86'400);
}

}  // namespace waybill
