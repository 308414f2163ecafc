#pragma once

#include <string>

#include <fmt/format.h>

#include "waybill/error.h"
#include "waybill/event.h"

namespace waybill::app {

// "order/o-7": the type up to the first '/', the rest is the id. Throws Error(fix_input) if one is missing.
inline Aggregate parse_aggregate(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size())
    throw Error(Remedy::fix_input, fmt::format("--aggregate '{}' must read TYPE/ID", text));
  return {text.substr(0, slash), text.substr(slash + 1)};
}

}  // namespace waybill::app
