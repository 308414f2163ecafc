#include "base/json_text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace waybill {
namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

// The length of the well-formed UTF-8 sequence at the front of `text`; 0 if there is none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xC0U) == 0x80U; };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return continues(1) ? 2 : 0;
  if (first < 0xF0) {
    if (!continues(1) || !continues(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
    if (first == 0xED && byte(1) > 0x9F) return 0;  // surrogate
    return 3;
  }
  if (first > 0xF4 || !continues(1) || !continues(2) || !continues(3)) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;  // overlong
  if (first == 0xF4 && byte(1) > 0x8F) return 0;  // beyond U+10FFFF
  return 4;
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  out += "\\u00";
  out += hex_digits[static_cast<unsigned char>(c) >> 4U];
  out += hex_digits[static_cast<unsigned char>(c) & 0xFU];
}

// Reads JSON and says whether it is well-formed; keeps nothing.
class JsonChecker {
 public:
  explicit JsonChecker(std::string_view text) : rest_(text) {}

  bool whole() {
    if (!value()) return false;
    space();
    return rest_.empty();
  }

 private:
  static constexpr int depth_max = 500;

  void space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t' || rest_[0] == '\r'))
      rest_.remove_prefix(1);
  }
  bool take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  bool value() {
    space();
    if (rest_.empty() || ++depth_ > depth_max) return false;
    bool good = false;
    switch (rest_[0]) {
      case '{':
        good = object();
        break;
      case '[':
        good = array();
        break;
      case '"':
        good = string();
        break;
      case 't':
        good = take_word("true");
        break;
      case 'f':
        good = take_word("false");
        break;
      case 'n':
        good = take_word("null");
        break;
      default:
        good = number();
    }
    --depth_;
    return good;
  }

  bool object() {
    rest_.remove_prefix(1);
    space();
    if (take('}')) return true;
    while (true) {
      space();
      if (!string()) return false;
      space();
      if (!take(':') || !value()) return false;
      space();
      if (take('}')) return true;
      if (!take(',')) return false;
    }
  }

  bool array() {
    rest_.remove_prefix(1);
    space();
    if (take(']')) return true;
    while (true) {
      if (!value()) return false;
      space();
      if (take(']')) return true;
      if (!take(',')) return false;
    }
  }

  bool string() {
    if (!take('"')) return false;
    std::size_t i = 0;
    while (i < rest_.size()) {
      const auto c = static_cast<unsigned char>(rest_[i]);
      if (c == '"') {
        rest_.remove_prefix(i + 1);
        return true;
      }
      if (c < 0x20) return false;
      if (c >= 0x80) {
        const std::size_t length = sequence_length(rest_.substr(i));
        if (length == 0) return false;
        i += length;
      } else if (c == '\\') {
        const std::size_t length = escape_length(rest_.substr(i));
        if (length == 0) return false;
        i += length;
      } else {
        ++i;
      }
    }
    return false;
  }

  static std::size_t escape_length(std::string_view text) {
    if (text.size() < 2) return 0;
    if (text[1] != 'u') return std::string_view("\"\\/bfnrt").find(text[1]) != std::string_view::npos ? 2 : 0;
    if (text.size() < 6) return 0;
    for (const char c : text.substr(2, 4))
      if (std::string_view("0123456789abcdefABCDEF").find(c) == std::string_view::npos) return 0;
    return 6;
  }

  bool digits() {
    std::size_t i = 0;
    while (i < rest_.size() && rest_[i] >= '0' && rest_[i] <= '9') ++i;
    rest_.remove_prefix(i);
    return i > 0;
  }

  bool number() {
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      return digits();
    }
    return true;
  }

  std::string_view rest_;
  int depth_ = 0;
};

// The number that the four hexadecimal digits after "\\u" spell; nothing if there are none.
std::optional<std::uint32_t> code_unit(std::string_view text) {
  if (text.size() < 6 || text[0] != '\\' || text[1] != 'u') return std::nullopt;
  std::uint32_t unit = 0;
  const char* end = text.data() + 6;
  return std::from_chars(text.data() + 2, end, unit, 16).ptr == end ? std::optional(unit) : std::nullopt;
}

void append_utf8(std::string& out, std::uint32_t point) {
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80U | (point >> shift & 0x3FU)); };
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xC0U | point >> 6U);
    tail(0);
  } else if (point < 0x10000) {
    out += static_cast<char>(0xE0U | point >> 12U);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0U | point >> 18U);
    tail(12);
    tail(6);
    tail(0);
  }
}

// Appends the character that the "\\u…" at the front of `text` spells; returns how long that is, 0 if it spells none.
std::size_t take_code_point(std::string_view text, std::string& out) {
  const auto high = code_unit(text);
  if (!high || (*high >= 0xDC00 && *high < 0xE000)) return 0;
  if (*high < 0xD800 || *high >= 0xE000) {
    append_utf8(out, *high);
    return 6;
  }
  const auto low = code_unit(text.substr(6));
  if (!low || *low < 0xDC00 || *low >= 0xE000) return 0;
  append_utf8(out, 0x10000U + ((*high - 0xD800U) << 10U) + (*low - 0xDC00U));
  return 12;
}

// The same for any escape.
std::size_t take_escape(std::string_view text, std::string& out) {
  constexpr std::string_view letters = "\"\\/bfnrt";
  constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
  if (text.size() < 2) return 0;
  if (text[1] == 'u') return take_code_point(text, out);
  const auto at = letters.find(text[1]);
  if (at == std::string_view::npos) return 0;
  out += meanings[at];
  return 2;
}

}  // namespace

bool is_json(std::string_view text) {
  return JsonChecker(text).whole();
}

bool is_json_object(std::string_view text) {
  const auto first = text.find_first_not_of(" \n\t\r");
  return first != std::string_view::npos && text[first] == '{' && is_json(text);
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;  // start of the run not written yet
  std::size_t i = 0;
  while (i < text.size()) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x80) {
      const std::size_t length = sequence_length(text.substr(i));
      if (length > 0) {
        i += length;
        continue;
      }
    } else if (c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) {
      ++i;
      continue;
    }
    out.append(text, plain, i - plain);
    if (static_cast<unsigned char>(c) >= 0x80) {
      out += "\\ufffd";
    } else {
      append_escaped(out, c);
    }
    plain = ++i;
  }
  out.append(text, plain, text.size() - plain);
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::optional<std::string_view> take_json_string(std::string_view& text, std::string& decoded) {
  if (!text.starts_with('"')) return std::nullopt;
  decoded.clear();
  std::size_t plain = 1;  // start of the run not decoded yet
  std::size_t i = 1;
  while (i < text.size() && text[i] != '"') {
    if (static_cast<unsigned char>(text[i]) < 0x20) return std::nullopt;
    std::size_t length = 0;
    if (text[i] == '\\') {
      decoded.append(text, plain, i - plain);
      length = take_escape(text.substr(i), decoded);
      plain = i + length;
    } else {
      length = sequence_length(text.substr(i));
    }
    if (length == 0) return std::nullopt;
    i += length;
  }
  if (i >= text.size()) return std::nullopt;
  const std::string_view last = text.substr(plain, i - plain);
  const bool escaped = plain > 1;
  text.remove_prefix(i + 1);
  if (!escaped) return last;
  decoded += last;
  return decoded;
}

void append_base64(std::string& out, std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8U | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += k <= count ? digits[group >> (18 - 6 * k) & 0x3FU] : '=';
  }
}

bool is_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '\0') return false;
    const std::size_t length = sequence_length(text.substr(i));
    if (length == 0) return false;
    i += length;
  }
  return true;
}

}  // namespace waybill
