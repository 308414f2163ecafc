#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace waybill {

// Replaces "{name}" in `text`.
std::string filled_in(std::string_view text, std::string_view name, std::string_view value);

// Appends to the text of a PostgreSQL array, which begins with "{" and is to be ended with "}". `bytes`: of a bytea[].
void append_element(std::string& array, const std::optional<std::string>& value, bool bytes = false);

}  // namespace waybill
