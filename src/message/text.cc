#include "message/text.h"

#include <algorithm>
#include <charconv>

#include "base/json_text.h"

namespace waybill {
namespace {

bool is_visible(char c) {
  return c > ' ' && c < 0x7F;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_token_char(char c) {
  return is_visible(c) && std::string_view("\"(),/:;<=>?@[\\]{}").find(c) == std::string_view::npos;
}

// U+0080 to U+009F are control characters, too.
bool has_upper_control(std::string_view text) {
  for (std::size_t i = 0; i + 1 < text.size(); ++i)
    if (static_cast<unsigned char>(text[i]) == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0) return true;
  return false;
}

void append_percent(std::string& out, char c) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  out += '%';
  out += digits[static_cast<unsigned char>(c) >> 4U];
  out += digits[static_cast<unsigned char>(c) & 0xFU];
}

// Appends what is plain in runs, and the rest in percent.
template <typename IsPlain>
void append_runs(std::string& out, std::string_view text, IsPlain is_plain) {
  while (!text.empty()) {
    const auto end = std::find_if_not(text.begin(), text.end(), is_plain);
    out.append(text.begin(), end);
    text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
    if (text.empty()) return;
    append_percent(out, text.front());
    text.remove_prefix(1);
  }
}

}  // namespace

bool same_letters(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view text_problem(std::string_view text) {
  bool ascii = true;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) return "contains a control character";
    ascii = ascii && byte < 0x80;
  }
  if (ascii) return {};
  if (!is_text(text)) return "is not UTF-8";
  return has_upper_control(text) ? "contains a control character" : std::string_view();
}

bool is_line_value(std::string_view text) {
  if (text.starts_with(' ') || text.ends_with(' ')) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return c == ' ' || is_visible(c); });
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

void append_escaped(std::string& out, std::string_view text, std::string_view reserved) {
  append_runs(out, text, [&](char c) { return reserved.find(c) == std::string_view::npos; });
}

void append_percent_encoded(std::string& out, std::string_view text) {
  append_runs(out, text, [](char c) { return is_visible(c) && c != '"' && c != '%'; });
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto plain = std::min(text.find('%'), text.size());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    unsigned code = 0;
    const auto digits = text.substr(1, 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || digits.size() != 2 || end != digits.data() + 2) return std::nullopt;
    out += static_cast<char>(code);
    text.remove_prefix(3);
  }
  return out;
}

}  // namespace waybill
