#include "message/cloudevents.h"

#include <fmt/format.h>

#include "base/json_text.h"
#include "base/time_text.h"
#include "message/bodies.h"
#include "message/text.h"

namespace waybill {
namespace {

// `dataschema` must be an absolute URI.
bool is_uri(std::string_view text) {
  const auto colon = text.find(':');
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (colon == 0 || colon == std::string_view::npos || colon + 1 == text.size() || !is_letter(text[0])) return false;
  for (const char c : text)
    if (c <= ' ' || c >= 0x7F || std::string_view("\"<>\\^`{|}").find(c) != std::string_view::npos) return false;
  return text.substr(0, colon).find_first_of("/?#[]@!$&'()*,;=%_~:") == std::string_view::npos;
}

bool is_json_type(std::string_view content_type) {
  auto essence = content_type.substr(0, content_type.find(';'));
  while (essence.ends_with(' ')) essence.remove_suffix(1);
  const auto ends = [&](std::string_view end) {
    return essence.size() > end.size() && same_letters(essence.substr(essence.size() - end.size()), end);
  };
  return ends("/json") || ends("+json");
}

// JSON has no line break or tab inside a token, so a space means the same.
std::string on_one_line(std::string_view json) {
  std::string line(json);
  for (char& c : line)
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  return line;
}

// Calls emit(name, value) for each attribute that the event has, datacontenttype apart.
template <typename Emit>
void each_attribute(const Message& message, const EventView& event, std::string_view source, Emit emit) {
  const auto maybe = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) emit(name, value);
  };
  const auto number = [&](std::string_view name, const auto& value) {
    if (value) emit(name, fmt::format_int(*value).c_str());
  };
  // Emitting may move the headers.
  const std::string traceparent(message.headers.find("traceparent"));
  const std::string tracestate(message.headers.find("tracestate"));
  emit("specversion", "1.0");
  emit("id", message.id);
  emit("source", source);
  emit("type", event.type);
  maybe("subject", event.aggregate_id);
  emit("time", to_rfc3339(event.occurred_at));
  if (is_uri(event.schema_id)) emit("dataschema", event.schema_id);
  maybe("schemaid", event.schema_id);
  number("schemaversion", event.schema_version);
  maybe("partitionkey", ordering_key(event));
  // Texts that sort as the numbers do.
  if (event.seq > 0) emit("sequence", fmt::format("{:019}", event.seq));
  maybe("traceparent", traceparent);
  maybe("tracestate", tracestate);
  maybe("aggregatetype", event.aggregate_type);
  number("aggregateversion", event.version);
  if (event.topic != event.type) emit("topic", event.topic);
  if (event.tenant != "default") maybe("tenant", event.tenant);
  if (!event.metadata.empty() && event.metadata != "{}") emit("metadata", on_one_line(event.metadata));
}

}  // namespace

void append_cloudevents_headers(Message& message, const EventView& event, std::string_view source,
                                const Binding& binding) {
  std::string encoded;
  each_attribute(message, event, source, [&](std::string_view name, std::string_view value) {
    if (!binding.lines) return message.headers.add(binding.attribute_prefix, name, value);
    encoded.clear();
    append_percent_encoded(encoded, value);
    message.headers.add(binding.attribute_prefix, name, encoded);
  });
}

void append_cloudevents_json(Message& message, const EventView& event, std::string_view source) {
  std::string& out = message.body;
  out += '{';
  each_attribute(message, event, source,
                 [&](std::string_view name, std::string_view value) { append_member(out, name, value); });
  append_member(out, "datacontenttype", event.content_type);
  append_payload(out, "data", event, event.payload_is_json && is_json_type(event.content_type));
  out += '}';
}

}  // namespace waybill
