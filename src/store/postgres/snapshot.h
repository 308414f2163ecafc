#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace waybill {

// Which transactions had ended at some moment: all below xmin, none from xmax on, between them those not in
// `open`. What PostgreSQL writes as "xmin:xmax:open,open,…".
struct Snapshot {
  std::uint64_t xmin = 3;  // the first number a transaction can have
  std::uint64_t xmax = 3;
  std::vector<std::uint64_t> open{};  // ascending

  static std::optional<Snapshot> parse(std::string_view text);
  std::string to_string() const;

  // The same in few characters, of A-Z, a-z, 0-9, - and _: two for each open transaction, as a rule.
  static std::optional<Snapshot> parse_compact(std::string_view text);
  std::string to_compact() const;

  // The oldest transaction open here that is at most `reach` transactions old; xmax if there is none. From it
  // on, one walk finds what has become visible since, at the price of passing what was visible already; older
  // transactions are better looked up one by one.
  std::uint64_t base(std::uint64_t reach) const;

  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

}  // namespace waybill
