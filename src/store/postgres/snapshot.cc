#include "store/postgres/snapshot.h"

#include <algorithm>
#include <charconv>

namespace waybill {
namespace {

// Takes a number and the character after it, if there is one, from the front of `text`.
std::optional<std::uint64_t> take_number(std::string_view& text, char after) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.empty()) return after == ',' ? std::optional(number) : std::nullopt;
  if (text.front() != after) return std::nullopt;
  text.remove_prefix(1);
  return number;
}

constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr unsigned digit_bits = 5;
constexpr std::uint64_t more_follows = 1U << digit_bits;

// Five bits in each character, the lowest first.
void append_compact(std::string& text, std::uint64_t number) {
  for (; number >= more_follows; number >>= digit_bits) text += digits[number % more_follows + more_follows];
  text += digits[number];
}

// Takes one number off the front of `text`.
std::optional<std::uint64_t> take_compact(std::string_view& text) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64 && !text.empty(); shift += digit_bits) {
    const std::uint64_t digit = digits.find(text.front());
    if (digit == std::string_view::npos) return std::nullopt;
    text.remove_prefix(1);
    const std::uint64_t bits = digit % more_follows;
    if (bits << shift >> shift != bits) return std::nullopt;
    number |= bits << shift;
    if (digit < more_follows) return number;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Snapshot> Snapshot::parse_compact(std::string_view text) {
  const auto xmin = take_compact(text);
  const auto length = take_compact(text);
  if (!xmin || !length || *xmin == 0 || *length > UINT64_MAX - *xmin) return std::nullopt;
  Snapshot snapshot{.xmin = *xmin, .xmax = *xmin + *length};
  for (std::uint64_t next = *xmin; !text.empty(); next = snapshot.open.back() + 1) {
    const auto gap = take_compact(text);
    if (!gap || *gap >= snapshot.xmax - next) return std::nullopt;
    snapshot.open.push_back(next + *gap);
  }
  return snapshot;
}

std::string Snapshot::to_compact() const {
  std::string text;
  append_compact(text, xmin);
  append_compact(text, xmax - xmin);
  std::uint64_t next = xmin;
  for (const std::uint64_t xid : open) {
    append_compact(text, xid - next);
    next = xid + 1;
  }
  return text;
}

std::optional<Snapshot> Snapshot::parse(std::string_view text) {
  Snapshot snapshot;
  const auto xmin = take_number(text, ':');
  if (!xmin) return std::nullopt;
  const auto xmax = take_number(text, ':');
  if (!xmax || *xmin == 0 || *xmax < *xmin) return std::nullopt;
  snapshot.xmin = *xmin;
  snapshot.xmax = *xmax;
  if (text.ends_with(',')) return std::nullopt;
  while (!text.empty()) {
    const auto xid = take_number(text, ',');
    const std::uint64_t least = snapshot.open.empty() ? snapshot.xmin : snapshot.open.back() + 1;
    if (!xid || *xid < least || *xid >= snapshot.xmax) return std::nullopt;
    snapshot.open.push_back(*xid);
  }
  return snapshot;
}

std::string Snapshot::to_string() const {
  std::string text = std::to_string(xmin) + ':' + std::to_string(xmax) + ':';
  for (const std::uint64_t xid : open) {
    if (text.back() != ':') text += ',';
    text += std::to_string(xid);
  }
  return text;
}

std::uint64_t Snapshot::base(std::uint64_t reach) const {
  const std::uint64_t oldest = xmax > reach ? xmax - reach : 0;
  const auto young = std::lower_bound(open.begin(), open.end(), oldest);
  return young == open.end() ? xmax : *young;
}

}  // namespace waybill
