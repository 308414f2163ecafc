#include "message/bodies.h"

#include <fmt/format.h>

#include "base/json_text.h"
#include "base/time_text.h"

namespace waybill {
namespace {

void append_name(std::string& out, std::string_view name) {
  if (!out.ends_with('{')) out += ',';
  append_json_string(out, name);
  out += ':';
}

template <typename Number>
void append_number(std::string& out, std::string_view name, Number value) {
  append_json_member(out, name, fmt::format_int(value).c_str());
}

bool is_object(std::string_view json) {
  const auto first = json.find_first_not_of(" \n\t\r");
  return first != std::string_view::npos && json[first] == '{';
}

std::string append_types(std::string& out, const EventView& event, std::span<const Template> types) {
  std::string urn;
  for (const auto& type : types) {
    urn.clear();
    const auto missing = type.append_to(urn, event, {});
    if (!missing.empty()) return fmt::format("the message type needs {}, which the event has not", missing);
    if (!out.ends_with('[')) out += ',';
    append_json_string(out, urn);
  }
  return {};
}

void append_masstransit_headers(std::string& out, const HeaderList& headers, const EventView& event) {
  append_json_member(out, "headers", "{");
  // MassTransit's own name for it.
  if (const auto trace = headers.find("traceparent"); !trace.empty() && headers.find("MT-Activity-Id").empty())
    append_member(out, "MT-Activity-Id", trace);
  if (!event.schema_id.empty()) append_member(out, "waybill-schema-id", event.schema_id);
  if (event.schema_version) append_number(out, "waybill-schema-version", *event.schema_version);
  if (!event.metadata.empty()) append_json_member(out, "waybill-metadata", event.metadata);
  for (std::size_t i = 0; i < headers.size(); ++i) append_member(out, headers[i].name, headers[i].value);
  out += '}';
}

}  // namespace

void append_member(std::string& out, std::string_view name, std::string_view value) {
  append_name(out, name);
  append_json_string(out, value);
}

void append_json_member(std::string& out, std::string_view name, std::string_view json) {
  append_name(out, name);
  out += json;
}

void append_payload(std::string& out, std::string_view name, const EventView& event, bool as_json) {
  if (as_json) return append_json_member(out, name, event.payload);
  append_json_member(out, std::string(name) + "_base64", "\"");
  append_base64(out, event.payload);
  out += '"';
}

void append_waybill_json(Message& message, const EventView& event) {
  std::string& out = message.body;
  out += '{';
  append_member(out, "id", message.id);
  append_member(out, "aggregate_id", event.aggregate_id);
  append_member(out, "aggregate_type", event.aggregate_type);
  append_member(out, "event_type", event.type);
  append_payload(out, "event_data", event, event.payload_is_json);
  append_json_member(out, "metadata", event.metadata.empty() ? "{}" : event.metadata);
  append_number(out, "version", event.version.value_or(1));
  append_member(out, "timestamp", to_rfc3339(event.occurred_at));
  if (!event.schema_id.empty()) append_member(out, "schema_id", event.schema_id);
  if (event.schema_version) append_number(out, "schema_version", *event.schema_version);
  if (!event.key.empty()) append_member(out, "key", event.key);
  out += '}';
}

std::string append_masstransit_json(Message& message, const EventView& event, std::span<const Template> types) {
  if (!event.payload_is_json || !is_object(event.payload)) return "MassTransit carries JSON objects only";
  std::string& out = message.body;
  out += '{';
  append_member(out, "messageId", message.id);
  // A consumer throws on what is no UUID; it is among the headers all the same.
  if (EventId::parse(message.correlation_id)) append_member(out, "correlationId", message.correlation_id);
  append_json_member(out, "messageType", "[");
  if (auto problem = append_types(out, event, types); !problem.empty()) return problem;
  out += ']';
  append_json_member(out, "message", event.payload);
  if (event.expires_at) append_member(out, "expirationTime", to_rfc3339(*event.expires_at));
  append_member(out, "sentTime", to_rfc3339(event.created_at));
  append_masstransit_headers(out, message.headers, event);
  out += '}';
  return {};
}

}  // namespace waybill
