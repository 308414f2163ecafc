#include "service/checks.h"

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/json_text.h"
#include "enqueue/schema_name.h"

namespace waybill {

void check_text(std::string_view what, std::string_view text, std::size_t least, std::size_t most) {
  if (text.size() < least || text.size() > most)
    throw Error(Remedy::fix_input,
                fmt::format("{} has {} bytes; {} to {} are allowed", what, text.size(), least, most));
  if (!is_text(text)) throw Error(Remedy::fix_input, fmt::format("{} is not UTF-8 text without NUL", what));
}

void check_transaction(const Connection& connection, std::string_view what) {
  if (!connection.in_transaction())
    throw Error(Remedy::fix_input,
                fmt::format("{}: there is no transaction; begin the one in which the work is done", what));
}

void check_schema(std::string_view name) {
  if (!is_schema_name(name)) throw Error(Remedy::fix_config, fmt::format("the schema's name {}", schema_name_rule));
}

Parameter or_null(const std::string& text) {
  return text.empty() ? Parameter{} : parameter(text);
}

std::string from_hexadecimal(std::string_view digits) {
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(value(digits[i]) << 4 | value(digits[i + 1]));
  return bytes;
}

}  // namespace waybill
