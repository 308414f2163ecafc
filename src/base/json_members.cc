#include "base/json_members.h"

#include <algorithm>

#include "waybill/error.h"

#include "base/assert.h"
#include "base/json_text.h"

namespace waybill {
namespace {

// Walks JSON that is known to be well-formed.
class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) {}

  char peek() {
    at_ = text_.find_first_not_of(" \t\r\n", at_);
    WAYBILL_ASSERT(at_ < text_.size());
    return text_[at_];
  }
  char take() {
    const char c = peek();
    ++at_;
    return c;
  }
  std::string_view value() {
    const char first = peek();
    const std::size_t start = at_;
    if (first == '"') {
      skip_string();
    } else if (first == '{' || first == '[') {
      skip_nested();
    } else {
      at_ = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
    }
    return text_.substr(start, at_ - start);
  }

 private:
  void skip_string() {
    for (++at_; text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\') ++at_;
    ++at_;
  }
  void skip_nested() {
    int depth = 0;
    do {
      const char c = text_[at_];
      if (c == '"') {
        skip_string();
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++at_;
    } while (depth > 0);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string decode_json_string(std::string_view json) {
  std::string decoded;
  const auto text = take_json_string(json, decoded);
  if (!text || !json.empty()) throw Error(Remedy::fix_input, "is not a text, or spells half a character");
  return std::string(*text);
}

std::vector<JsonMember> json_members(std::string_view text) {
  std::vector<JsonMember> members;
  Walker walker(text);
  walker.take();  // {
  while (walker.peek() != '}') {
    if (walker.peek() == ',') walker.take();
    JsonMember member;
    member.name = decode_json_string(walker.value());
    walker.take();  // :
    member.value = walker.value();
    members.push_back(std::move(member));
  }
  return members;
}

}  // namespace waybill
