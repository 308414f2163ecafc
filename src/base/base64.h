#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace waybill {

// The bytes that base64 text (RFC 4648, with padding) stands for; nothing if it is none.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace waybill
