#pragma once

#include <string>

#include <fmt/format.h>

#include "waybill/store.h"

namespace waybill {

// "17", or "10000+" if it is at least that.
inline std::string count_text(const Count& count) {
  return fmt::format("{}{}", count.value, count.exact ? "" : "+");
}

}  // namespace waybill
