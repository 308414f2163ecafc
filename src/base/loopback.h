#pragma once

#include <string>

namespace waybill {

// Is it "localhost", an address of 127.0.0.0/8, or "::1"? Names are not resolved.
bool is_loopback(const std::string& host);

}  // namespace waybill
