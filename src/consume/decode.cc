#include "consume/decode.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/base64.h"
#include "base/json_members.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "message/text.h"

namespace waybill::consume {
namespace {

using Text = std::optional<std::string>;
using Members = std::vector<JsonMember>;

constexpr std::size_t id_bytes_max = 512;  // of the inbox
constexpr std::size_t context_bytes_max = 512;

[[noreturn]] void refuse(const std::string& what) {
  throw Rejection("the message cannot be read: " + what);
}

const std::string* find(const std::vector<Header>& headers, std::string_view name) {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const Header& header) { return same_letters(header.name, name); });
  return found == headers.end() ? nullptr : &found->value;
}

// Of a MIME type, without its parameters.
std::string_view essence(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  while (content_type.ends_with(' ')) content_type.remove_suffix(1);
  return content_type;
}

bool is_json_type(std::string_view content_type) {
  const auto type = essence(content_type);
  const auto ends = [&](std::string_view end) {
    return type.size() > end.size() && same_letters(type.substr(type.size() - end.size()), end);
  };
  return ends("/json") || ends("+json");
}

template <typename Number>
Number number_of(const std::string& digits, std::string_view name) {
  Number number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) refuse(fmt::format("its {} is no number", name));
  return number;
}

Time time_of(const std::string& text, std::string_view name) {
  const auto time = parse_rfc3339(text);
  if (!time) refuse(fmt::format("its {} is no time of RFC 3339", name));
  return *time;
}

// --- JSON

// Nothing if it is no object, or one of its names spells half a character.
std::optional<Members> try_members(std::string_view json) try {
  if (!is_json_object(json)) return std::nullopt;
  return json_members(json);
} catch (const Error&) {
  return std::nullopt;
}

Members members_of(std::string_view json) {
  auto members = try_members(json);
  if (!members) refuse("its body is not a JSON object");
  return std::move(*members);
}

const std::string_view* find_any(const Members& members, std::string_view name) {
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const JsonMember& member) { return member.name == name; });
  return found == members.end() ? nullptr : &found->value;
}

// What is null counts as absent; but a payload may be just that.
const std::string_view* find(const Members& members, std::string_view name) {
  const auto* value = find_any(members, name);
  return value && *value != "null" ? value : nullptr;
}

// A text, or a number as its digits.
Text text_of(const Members& members, std::string_view name) try {
  const auto* value = find(members, name);
  if (!value) return std::nullopt;
  return value->starts_with('"') ? decode_json_string(*value) : std::string(*value);
} catch (const Rejection&) {
  throw;
} catch (const Error&) {
  refuse(fmt::format("its {} is no text", name));
}

// What stands under `name` as it is, or under `name`_base64. A text that is said to be no JSON is what it spells.
void take_payload(Delivery& delivery, const Members& members, const std::string& name) {
  RecordedEvent& event = delivery.event;
  const bool says_json = is_json_type(delivery.content_type);
  if (const auto* json = find_any(members, name); json && (says_json || !json->starts_with('"'))) {
    event.payload = *json;
    return;
  }
  if (auto text = text_of(members, name)) {
    event.payload = std::move(*text);
  } else if (const auto coded = text_of(members, name + "_base64")) {
    auto bytes = decode_base64(*coded);
    if (!bytes) refuse(fmt::format("its {}_base64 is no base64", name));
    event.payload = std::move(*bytes);
  }
  event.payload_is_json = says_json && is_json(event.payload);
}

// --- Envelopes

void take_schema(RecordedEvent& event, const Text& id, const Text& version) {
  if (id) event.schema_id = *id;
  if (version) event.schema_version = number_of<std::int32_t>(*version, "schema version");
}

// As Waybill writes it; others have such an attribute, too.
bool is_place_in_log(const Text& sequence) {
  constexpr std::size_t digits = 19;
  return sequence && sequence->size() == digits && sequence->find_first_not_of("0123456789") == std::string::npos;
}

// CloudEvents' ids need be unique for each source only.
std::string own_id(const Text& source, const std::string& id) {
  return !source || id.empty() || EventId::parse(id) ? id : fmt::format("{} {}", *source, id);
}

// `attribute(name)`: as Text.
template <typename Attribute>
void take_attributes(Delivery& delivery, const Attribute& attribute) {
  RecordedEvent& event = delivery.event;
  if (const Text id = attribute("id")) delivery.id = own_id(attribute("source"), *id);
  event.type = attribute("type").value_or(event.type);
  event.topic = attribute("topic").value_or(event.type);
  event.stream.type = attribute("aggregatetype").value_or("");
  event.stream.id = attribute("subject").value_or("");
  event.stream.tenant = attribute("tenant").value_or(event.stream.tenant);
  if (const Text version = attribute("aggregateversion"))
    event.version = number_of<std::int64_t>(*version, "aggregateversion");
  if (const Text time = attribute("time")) event.occurred_at = time_of(*time, "time");
  const Text schema = attribute("schemaid");
  take_schema(event, schema ? schema : attribute("dataschema"), attribute("schemaversion"));
  event.metadata = attribute("metadata").value_or("{}");
  if (const Text key = attribute("partitionkey")) {
    delivery.key = *key;
  } else if (is_place_in_log(attribute("sequence"))) {
    delivery.key = "";  // Waybill would have told it.
  }
}

// How the names of attributes begin that are headers; empty: the message is not in CloudEvents' binary mode.
std::string_view attribute_prefix(const std::vector<Header>& headers) {
  for (const std::string_view prefix : {"cloudEvents:", "cloudEvents_", "ce-"})
    if (find(headers, std::string(prefix) + "specversion")) return prefix;
  return {};
}

void read_cloudevents_binary(Delivery& delivery, Incoming& incoming, std::string_view prefix) {
  const bool in_lines = prefix == "ce-";
  const auto attribute = [&](std::string_view name) -> Text {
    const auto* value = find(delivery.headers, std::string(prefix).append(name));
    if (!value) return std::nullopt;
    if (!in_lines) return *value;
    auto decoded = percent_decoded(*value);
    if (!decoded) refuse(fmt::format("its attribute {} has a '%' that no two digits follow", name));
    return decoded;
  };
  delivery.content_type = attribute("datacontenttype").value_or(delivery.content_type);
  delivery.event.payload = std::move(incoming.body);
  take_attributes(delivery, attribute);
}

void read_cloudevents_structured(Delivery& delivery, const Incoming& incoming) {
  const Members members = members_of(incoming.body);
  const auto attribute = [&](std::string_view name) { return text_of(members, name); };
  if (!attribute("specversion")) refuse("its body is no CloudEvent");
  delivery.content_type = attribute("datacontenttype").value_or("application/json");
  take_payload(delivery, members, "data");
  take_attributes(delivery, attribute);
}

bool is_waybill(const Members& members) {
  constexpr std::array<std::string_view, 6> names{"id",         "aggregate_id", "aggregate_type",
                                                  "event_type", "version",      "timestamp"};
  return std::all_of(names.begin(), names.end(), [&](std::string_view name) { return find(members, name); }) &&
         (find_any(members, "event_data") || find(members, "event_data_base64"));
}

void read_waybill(Delivery& delivery, const Members& members) {
  RecordedEvent& event = delivery.event;
  if (!is_waybill(members)) refuse("its body lacks members of Waybill's envelope");
  delivery.id = text_of(members, "id").value();
  event.type = text_of(members, "event_type").value();
  event.topic = delivery.address;
  event.stream.type = text_of(members, "aggregate_type").value();
  event.stream.id = text_of(members, "aggregate_id").value();
  event.version = number_of<std::int64_t>(text_of(members, "version").value(), "version");
  event.occurred_at = time_of(text_of(members, "timestamp").value(), "timestamp");
  take_schema(event, text_of(members, "schema_id"), text_of(members, "schema_version"));
  if (const auto* metadata = find(members, "metadata")) event.metadata = *metadata;
  delivery.content_type = find_any(members, "event_data") ? "application/json" : "application/octet-stream";
  take_payload(delivery, members, "event_data");
  if (!event.stream.type.empty()) delivery.key = event.stream.type + '/' + event.stream.id;
  if (auto key = text_of(members, "key")) delivery.key = std::move(*key);
}

void read_masstransit(Delivery& delivery, const Incoming& incoming) {
  RecordedEvent& event = delivery.event;
  const Members members = members_of(incoming.body);
  const auto* message = find(members, "message");
  if (!message) refuse("its body is no MassTransit message");
  event.payload = *message;
  delivery.content_type = "application/json";
  if (const Text id = text_of(members, "messageId")) delivery.id = *id;
  if (const Text sent = text_of(members, "sentTime")) event.occurred_at = time_of(*sent, "sentTime");
  if (const Text correlation = text_of(members, "correlationId")) delivery.correlation_id = *correlation;
  if (const auto* types = find(members, "messageType"); types && event.type.empty()) {
    std::string decoded;
    std::string_view list = *types;
    list.remove_prefix(std::min(list.find('"'), list.size()));
    event.type = take_json_string(list, decoded).value_or("");
  }
  event.topic = delivery.address;
  const auto* headers = find(members, "headers");
  const auto own = headers ? try_members(*headers) : std::nullopt;
  if (!own) return;
  take_schema(event, text_of(*own, "waybill-schema-id"), text_of(*own, "waybill-schema-version"));
  if (const auto* metadata = find(*own, "waybill-metadata")) event.metadata = *metadata;
}

void read_raw(Delivery& delivery, Incoming& incoming) {
  RecordedEvent& event = delivery.event;
  const auto text = [&](std::string_view name) {
    const auto* value = find(delivery.headers, name);
    return value ? Text(*value) : std::nullopt;
  };
  take_schema(event, text("waybill-schema-id"), text("waybill-schema-version"));
  event.topic = delivery.address;
  if (event.type.empty()) event.type = delivery.address;
  event.payload = std::move(incoming.body);
  event.payload_is_json = is_json(event.payload);
}

void read_envelope(Delivery& delivery, Incoming& incoming, MessageForm form) {
  const auto content_type = essence(incoming.content_type);
  if (same_letters(content_type, "application/cloudevents+json"))
    return read_cloudevents_structured(delivery, incoming);
  if (same_letters(content_type, "application/vnd.masstransit+json")) return read_masstransit(delivery, incoming);
  if (const auto prefix = attribute_prefix(delivery.headers); !prefix.empty()) {
    read_cloudevents_binary(delivery, incoming, prefix);
    delivery.event.payload_is_json = is_json_type(delivery.content_type) && is_json(delivery.event.payload);
    return;
  }
  if (form == MessageForm::waybill) return read_waybill(delivery, members_of(incoming.body));
  if (form == MessageForm::automatic)
    if (const auto members = try_members(incoming.body); members && is_waybill(*members))
      return read_waybill(delivery, *members);
  read_raw(delivery, incoming);
}

void check(const Delivery& delivery) {
  if (delivery.id.empty()) refuse("it has no id, so nobody can tell whether it has come before");
  if (delivery.id.size() > id_bytes_max || !is_text(delivery.id))
    refuse(fmt::format("its id is not UTF-8, or has more than {} bytes", id_bytes_max));
  const std::string& tenant = delivery.event.stream.tenant;
  if (tenant.empty() || tenant.size() > limits::name_bytes_max || !is_text(tenant))
    refuse(fmt::format("its tenant is not 1 to {} bytes of UTF-8", limits::name_bytes_max));
  if (!is_json_object(delivery.event.metadata)) refuse("its metadata is not a JSON object");
}

}  // namespace

Delivery outside_of(const Incoming& incoming) {
  Delivery delivery;
  delivery.id = incoming.id;
  delivery.headers = incoming.headers;
  delivery.content_type = incoming.content_type;
  delivery.correlation_id = incoming.correlation_id;
  delivery.address = incoming.address;
  delivery.deliveries = incoming.deliveries;
  delivery.event.type = incoming.type;
  delivery.event.metadata = "{}";
  if (incoming.timestamp) delivery.event.occurred_at = *incoming.timestamp;
  return delivery;
}

Delivery decode(Incoming& incoming, MessageForm form) {
  Delivery delivery = outside_of(incoming);
  read_envelope(delivery, incoming, form);
  check(delivery);
  delivery.event.id = EventId::parse(delivery.id).value_or(EventId{});
  return delivery;
}

EventContext context_of(const Delivery& delivery) {
  // What no header can carry would keep the events that get it from being delivered.
  const auto carried = [](const std::string& value) {
    return is_line_value(value) && value.size() <= context_bytes_max ? value : std::string();
  };
  const auto text = [&](std::string_view name) {
    const auto* value = find(delivery.headers, name);
    return value ? carried(*value) : std::string();
  };
  EventContext context{.correlation_id = text("correlation-id"),
                       .causation_id = delivery.id,
                       .traceparent = text("traceparent"),
                       .tracestate = text("tracestate")};
  if (context.correlation_id.empty()) context.correlation_id = text("correlation_id");
  if (context.correlation_id.empty()) context.correlation_id = carried(delivery.correlation_id);
  return context;
}

}  // namespace waybill::consume
