#include "model/validate.h"

#include <set>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/json_text.h"

namespace waybill {
namespace {

[[noreturn]] void refuse(const Event& event, std::string_view field, std::string_view why) {
  // The topic may be what is wrong: never print what is not text.
  const bool named = field != "topic" && is_text(event.topic) && !event.topic.empty();
  throw Error(Remedy::fix_input, named ? fmt::format("event '{}': {} {}", event.topic, field, why)
                                       : fmt::format("event: {} {}", field, why));
}

void check_text(const Event& event, std::string_view field, std::string_view value, std::size_t bytes_max) {
  if (value.size() > bytes_max)
    refuse(event, field, fmt::format("has {} bytes; at most {} are allowed", value.size(), bytes_max));
  if (!is_text(value)) refuse(event, field, "is not UTF-8 text without NUL");
}

// What becomes part of a protocol's line must not end it.
void check_line(const Event& event, std::string_view field, std::string_view value, std::size_t bytes_max) {
  check_text(event, field, value, bytes_max);
  for (const char c : value)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) refuse(event, field, "contains a control character");
}

void check_payload(const Event& event) {
  if (event.payload.has_value() == event.payload_bytes.has_value())
    refuse(event, "payload", "must be given once: as payload (JSON) or as payload_bytes");
  const auto& bytes = event.payload ? *event.payload : *event.payload_bytes;
  if (bytes.size() > limits::payload_bytes_max)
    refuse(event, "payload",
           fmt::format("has {} bytes; at most {} are allowed: store it elsewhere and send a reference", bytes.size(),
                       limits::payload_bytes_max));
  if (event.payload && !is_json(*event.payload))
    refuse(event, "payload", "is not JSON; for other content use payload_bytes with a content_type");
}

void check_headers(const Event& event) {
  std::set<std::string_view> names;
  for (const auto& [name, value] : event.headers) {
    if (name.empty()) refuse(event, "headers", "have a name that is empty");
    check_line(event, "headers", name, limits::name_bytes_max);
    check_line(event, "headers", value, limits::headers_bytes_max);
    if (!names.insert(name).second) refuse(event, "headers", fmt::format("name '{}' twice", name));
  }
  if (headers_json(event.headers).size() > limits::headers_bytes_max)
    refuse(event, "headers", fmt::format("have more than {} bytes in all", limits::headers_bytes_max));
}

}  // namespace

void validate(const Event& event) {
  if (event.topic.empty()) refuse(event, "topic", "is missing");
  check_line(event, "topic", event.topic, limits::name_bytes_max);
  check_line(event, "type", event.type, limits::name_bytes_max);
  if (event.tenant.empty()) refuse(event, "tenant", "is empty; leave it out for 'default'");
  check_line(event, "tenant", event.tenant, limits::name_bytes_max);
  if (event.aggregate.type.empty() != event.aggregate.id.empty())
    refuse(event, "aggregate", "needs both its type and its id");
  check_line(event, "aggregate type", event.aggregate.type, limits::name_bytes_max);
  check_line(event, "aggregate id", event.aggregate.id, limits::key_bytes_max);
  check_line(event, "key", event.key, limits::key_bytes_max);
  check_line(event, "content_type", event.content_type, limits::name_bytes_max);
  check_line(event, "routing_key", event.routing_key, limits::name_bytes_max);
  check_line(event, "schema_id", event.schema_id, limits::name_bytes_max);
  check_line(event, "dedup_key", event.dedup_key, limits::key_bytes_max);
  check_text(event, "metadata", event.metadata, limits::metadata_bytes_max);
  if (!event.metadata.empty() && !is_json_object(event.metadata)) refuse(event, "metadata", "is not a JSON object");
  if (event.attempts_max && (*event.attempts_max < 1 || *event.attempts_max > limits::attempts_max))
    refuse(event, "attempts_max", fmt::format("must be between 1 and {}", limits::attempts_max));
  if (event.expires_at && event.not_before && *event.expires_at <= *event.not_before)
    refuse(event, "expires_at", "is not after not_before");
  check_headers(event);
  check_payload(event);
}

void validate_schedule(const Event& event, Time now) {
  if (event.not_before && *event.not_before > now + limits::schedule_max)
    refuse(event, "not_before",
           fmt::format("must be at most {} days ahead",
                       std::chrono::floor<std::chrono::days>(limits::schedule_max).count()));
}

std::string headers_json(const std::vector<Header>& headers) {
  if (headers.empty()) return {};
  std::string json = "{";
  for (const auto& [name, value] : headers) {
    if (json.size() > 1) json += ',';
    append_json_string(json, name);
    json += ':';
    append_json_string(json, value);
  }
  json += '}';
  return json;
}

}  // namespace waybill
