#include "database/sql_text.h"

#include <iterator>

#include <fmt/format.h>

namespace waybill {

std::string filled_in(std::string_view text, std::string_view name, std::string_view value) {
  const std::string mark = fmt::format("{{{}}}", name);
  std::string out;
  while (true) {
    const auto at = text.find(mark);
    out += text.substr(0, at);
    if (at == std::string_view::npos) return out;
    out += value;
    text.remove_prefix(at + mark.size());
  }
}

void append_element(std::string& array, const std::optional<std::string>& value, bool bytes) {
  if (array.size() > 1) array += ',';
  if (!value) {
    array += "NULL";
    return;
  }
  array += '"';
  if (bytes) {
    array += "\\\\x";
    for (const char c : *value) fmt::format_to(std::back_inserter(array), "{:02x}", static_cast<unsigned char>(c));
  } else {
    for (const char c : *value) {
      if (c == '"' || c == '\\') array += '\\';
      array += c;
    }
  }
  array += '"';
}

}  // namespace waybill
