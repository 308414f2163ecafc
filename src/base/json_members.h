#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace waybill {

// A member of a JSON object: its name, decoded, and its value as it is written.
struct JsonMember {
  std::string name{};
  std::string_view value{};
};

// The members of a JSON object, in their order. REQUIRES: is_json_object(text).
std::vector<JsonMember> json_members(std::string_view text);

// What a JSON string spells. Throws Error(fix_input) if it is none, or half a surrogate pair.
std::string decode_json_string(std::string_view json);

}  // namespace waybill
