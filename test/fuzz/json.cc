// JSON as text: what we call an object can be taken apart, and is one for others, too.
#include <nlohmann/json.hpp>

#include "base/json_members.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "fuzz/input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace waybill;
  const std::string_view text = fuzz::Input(data, size).rest();
  // Others take no half of a character; we leave that to those who decode it.
  if (is_json(text) && text.find("\\u") == std::string_view::npos) fuzz::require(nlohmann::json::accept(text));
  if (is_json_object(text)) {
    fuzz::require(is_json(text));
    fuzz::accepts([&] {
      for (const JsonMember& member : json_members(text)) fuzz::require(is_json(member.value));
    });
  }
  std::string_view rest = text;
  std::string decoded;
  if (const auto taken = take_json_string(rest, decoded))
    fuzz::require(is_text(*taken) || taken->find('\0') != taken->npos);
  fuzz::require(is_json(json_string(text)));
  if (const auto time = parse_rfc3339(text)) fuzz::require(parse_rfc3339(to_rfc3339(*time)) == time);
  if (const auto duration = parse_duration(text)) fuzz::require(parse_duration(to_text(*duration)) == duration);
  return 0;
}
