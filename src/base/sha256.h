#pragma once

#include <string>
#include <string_view>

namespace waybill {

// SHA-256 (FIPS 180-4) of the bytes, as 64 hexadecimal digits. Not for secrets: it is not made to be slow.
std::string sha256(std::string_view bytes);

}  // namespace waybill
