#include "model/event_json.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/json_text.h"
#include "base/time_text.h"

namespace waybill {
namespace {

void append_text(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  fmt::format_to(std::back_inserter(out), R"(,"{}":)", name);
  append_json_string(out, value);
}

void append_time(std::string& out, std::string_view name, const std::optional<Time>& value) {
  if (value) fmt::format_to(std::back_inserter(out), R"(,"{}":"{}")", name, to_rfc3339(*value));
}

template <typename Number>
void append_number(std::string& out, std::string_view name, const std::optional<Number>& value) {
  if (value) fmt::format_to(std::back_inserter(out), R"(,"{}":{})", name, *value);
}

// JSON has no line break inside a token, so a space means the same.
void append_json_value(std::string& out, std::string_view name, std::string_view json) {
  if (json.empty()) return;
  fmt::format_to(std::back_inserter(out), R"(,"{}":)", name);
  const auto start = static_cast<std::ptrdiff_t>(out.size());
  out += json;
  std::replace_if(
      out.begin() + start, out.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
}

}  // namespace

void append_event_json(std::string& out, const EventView& event) {
  fmt::format_to(std::back_inserter(out), R"({{"id":"{}","seq":{})", event.id.to_string(), event.seq);
  append_text(out, "tenant", event.tenant);
  append_text(out, "topic", event.topic);
  append_text(out, "type", event.type);
  append_text(out, "aggregate_type", event.aggregate_type);
  append_text(out, "aggregate_id", event.aggregate_id);
  append_number(out, "version", event.version);
  append_text(out, "key", event.key);
  append_text(out, "content_type", event.content_type);
  append_text(out, "routing_key", event.routing_key);
  append_text(out, "schema_id", event.schema_id);
  append_number(out, "schema_version", event.schema_version);
  append_time(out, "occurred_at", event.occurred_at);
  append_time(out, "created_at", event.created_at);
  append_time(out, "not_before", event.not_before);
  append_time(out, "expires_at", event.expires_at);
  append_number(out, "attempts_max", event.attempts_max);
  append_text(out, "dedup_key", event.dedup_key);
  append_json_value(out, "metadata", event.metadata);
  append_json_value(out, "headers", event.headers);
  if (event.payload_is_json) {
    append_json_value(out, "payload", event.payload);
  } else {
    out += R"(,"payload_base64":")";
    append_base64(out, event.payload);
    out += '"';
  }
  out += '}';
}

}  // namespace waybill
