#pragma once

#include <string>

#include "config/tree.h"

namespace waybill::config {

// The table that the TOML text spells; `path` is what messages call it. Throws Error(fix_config) with line
// and column if it is no TOML.
Node parse_toml(const std::string& text, const std::string& path);

}  // namespace waybill::config
