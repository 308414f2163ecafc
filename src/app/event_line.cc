#include "app/event_line.h"

#include <array>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/base64.h"
#include "base/json_members.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "base/suggest.h"

namespace waybill::app {
namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view why) {
  throw Error(Remedy::fix_input, fmt::format("{} {}", name, why));
}

std::string_view kind_of(std::string_view json) {
  switch (json.front()) {
    case '"':
      return "a text";
    case '{':
      return "an object";
    case '[':
      return "a list";
    case 't':
    case 'f':
      return "a boolean";
    default:
      return "a number";
  }
}

std::string text(const JsonMember& member) {
  if (member.value.front() != '"') refuse(member.name, fmt::format("must be a text, not {}", kind_of(member.value)));
  try {
    return decode_json_string(member.value);
  } catch (const Error& error) {
    refuse(member.name, error.what());
  }
}

template <typename Number>
Number number(const JsonMember& member) {
  Number value{};
  const char* end = member.value.data() + member.value.size();
  const auto [rest, error] = std::from_chars(member.value.data(), end, value);
  if (error != std::errc() || rest != end) refuse(member.name, "must be a whole number that fits its column");
  return value;
}

Time time(const JsonMember& member) {
  const auto value = parse_rfc3339(text(member));
  if (!value) refuse(member.name, "must be a time such as \"2026-02-19T08:30:00Z\"");
  return *value;
}

std::vector<Header> headers(const JsonMember& member) {
  if (member.value.front() != '{') refuse(member.name, fmt::format("must be an object, not {}", kind_of(member.value)));
  std::vector<Header> out;
  for (const auto& header : json_members(member.value)) {
    if (header.value.front() != '"') refuse(member.name, "must have texts as values");
    out.push_back({header.name, text(header)});
  }
  return out;
}

struct Field {
  std::string_view name{};
  void (*set)(Event&, const JsonMember&) = nullptr;
};

// In the order of the table's columns.
constexpr std::array fields{
    Field{"id",
          [](Event& e, const JsonMember& m) {
            e.id = EventId::parse(text(m));
            if (!e.id) refuse(m.name, "must be a UUID");
          }},
    Field{"tenant", [](Event& e, const JsonMember& m) { e.tenant = text(m); }},
    Field{"topic", [](Event& e, const JsonMember& m) { e.topic = text(m); }},
    Field{"type", [](Event& e, const JsonMember& m) { e.type = text(m); }},
    Field{"aggregate_type", [](Event& e, const JsonMember& m) { e.aggregate.type = text(m); }},
    Field{"aggregate_id", [](Event& e, const JsonMember& m) { e.aggregate.id = text(m); }},
    Field{"version", [](Event& e, const JsonMember& m) { e.version = number<std::int64_t>(m); }},
    Field{"key", [](Event& e, const JsonMember& m) { e.key = text(m); }},
    Field{"payload", [](Event& e, const JsonMember& m) { e.payload = std::string(m.value); }},
    Field{"payload_base64",
          [](Event& e, const JsonMember& m) {
            e.payload_bytes = decode_base64(text(m));
            if (!e.payload_bytes) refuse(m.name, "must be base64 with padding");
          }},
    Field{"content_type", [](Event& e, const JsonMember& m) { e.content_type = text(m); }},
    Field{"metadata", [](Event& e, const JsonMember& m) { e.metadata = std::string(m.value); }},
    Field{"headers", [](Event& e, const JsonMember& m) { e.headers = headers(m); }},
    Field{"routing_key", [](Event& e, const JsonMember& m) { e.routing_key = text(m); }},
    Field{"schema_id", [](Event& e, const JsonMember& m) { e.schema_id = text(m); }},
    Field{"schema_version", [](Event& e, const JsonMember& m) { e.schema_version = number<std::int32_t>(m); }},
    Field{"occurred_at", [](Event& e, const JsonMember& m) { e.occurred_at = time(m); }},
    Field{"not_before", [](Event& e, const JsonMember& m) { e.not_before = time(m); }},
    Field{"expires_at", [](Event& e, const JsonMember& m) { e.expires_at = time(m); }},
    Field{"attempts_max", [](Event& e, const JsonMember& m) { e.attempts_max = number<std::int32_t>(m); }},
    Field{"dedup_key", [](Event& e, const JsonMember& m) { e.dedup_key = text(m); }},
};

const Field& field_of(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& field : fields) {
    if (field.name == name) return field;
    known.emplace_back(field.name);
  }
  // The name is input: show it only if it can be shown.
  refuse(is_text(name) ? fmt::format("'{}'", name.substr(0, 60)) : "a member",
         "is unknown" + suggestion(name, known));
}

}  // namespace

Event parse_event_line(std::string_view line) {
  if (!is_json_object(line)) throw Error(Remedy::fix_input, "it is not a JSON object in UTF-8");
  Event event;
  std::set<std::string_view> seen;
  for (const auto& member : json_members(line)) {
    const Field& field = field_of(member.name);
    if (!seen.insert(field.name).second) refuse(field.name, "is there twice");
    // The payload may be null; anything else that is null is not there.
    if (member.value == "null" && field.name != "payload") continue;
    field.set(event, member);
  }
  return event;
}

}  // namespace waybill::app
