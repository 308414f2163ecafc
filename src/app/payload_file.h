#pragma once

#include <string>

namespace waybill::app {

// A payload from a file, or from the standard input for "-"; of one that is too large, one byte more than is allowed.
// Throws Error(fix_input) if it cannot be read.
std::string read_payload(const std::string& path);

}  // namespace waybill::app
