#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace waybill::config {

// "512B", "64KiB", "32MiB", "2GiB": whole numbers, one unit. Nothing if it is none or too large.
std::optional<std::int64_t> parse_byte_size(std::string_view text);

// The shortest text that parse_byte_size reads back.
std::string byte_size_text(std::int64_t bytes);

}  // namespace waybill::config
