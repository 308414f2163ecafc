#pragma once

#include <cstddef>
#include <string_view>

namespace waybill {

// Equal? Takes the same time wherever `given` differs from `secret`, so that a stranger cannot find it out letter by
// letter. Only the length of `given` shows.
inline bool same_secret(std::string_view given, std::string_view secret) {
  volatile unsigned char difference = given.size() == secret.size() && !secret.empty() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto expected = static_cast<unsigned char>(secret.empty() ? 0 : secret[i % secret.size()]);
    difference = static_cast<unsigned char>(difference | (static_cast<unsigned char>(given[i]) ^ expected));
  }
  return difference == 0;
}

}  // namespace waybill
