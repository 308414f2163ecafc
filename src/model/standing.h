#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "waybill/store.h"

namespace waybill {

inline constexpr std::array all_standings{Standing::retrying, Standing::blocked,  Standing::scheduled,
                                          Standing::held,     Standing::expired,  Standing::expired_unknown,
                                          Standing::dead,     Standing::dismissed};

// The standing of that name, or nothing.
inline std::optional<Standing> parse_standing(std::string_view name) {
  for (const Standing standing : all_standings)
    if (to_string(standing) == name) return standing;
  return std::nullopt;
}

}  // namespace waybill
