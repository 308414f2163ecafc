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

}  // namespace

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
