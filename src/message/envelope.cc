#include "message/envelope.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "message/bodies.h"
#include "message/cloudevents.h"
#include "message/text.h"

namespace waybill {
namespace {

constexpr std::string_view own_prefix = "waybill-";
constexpr std::size_t property_bytes_max = 255;

// Applications that insert rows by themselves may have written anything.
std::string field_problem(const EventView& event) {
  const std::array<std::pair<std::string_view, std::string_view>, 8> fields{{{"topic", event.topic},
                                                                             {"type", event.type},
                                                                             {"tenant", event.tenant},
                                                                             {"aggregate_type", event.aggregate_type},
                                                                             {"aggregate_id", event.aggregate_id},
                                                                             {"key", event.key},
                                                                             {"content_type", event.content_type},
                                                                             {"schema_id", event.schema_id}}};
  for (const auto& [name, value] : fields)
    if (const auto problem = text_problem(value); !problem.empty()) return fmt::format("its {} {}", name, problem);
  return {};
}

void set_properties(Message& message, const EventView& event) {
  event.id.append_to(message.id);
  message.type = event.type;
  message.timestamp = event.occurred_at;
  auto correlation = message.headers.find("correlation-id");
  if (correlation.empty()) correlation = message.headers.find("correlation_id");
  if (correlation.size() <= property_bytes_max) message.correlation_id = correlation;
}

// A content type is ASCII in every protocol, and what one broker cannot carry the others do not get either.
std::string set_content_type(Message& message, std::string_view type, std::string_view header) {
  if (!is_line_value(type)) return "its content_type must be ASCII without a space at its ends";
  message.content_type = type;
  if (!header.empty()) message.headers.add(header, type);
  return {};
}

// Puts the event into a message that has the event's own headers and properties by now.
using Dress = std::function<std::string(const EventView&, Message&)>;

Dress binary(std::string source, const Binding& binding) {
  return [source = std::move(source), &binding](const EventView& event, Message& message) {
    message.body = event.payload;
    append_cloudevents_headers(message, event, source, binding);
    return set_content_type(message, event.content_type, binding.data_type);
  };
}

Dress structured(std::string source, const Binding& binding) {
  return [source = std::move(source), &binding](const EventView& event, Message& message) {
    append_cloudevents_json(message, event, source);
    return set_content_type(message, "application/cloudevents+json", binding.content_type);
  };
}

Dress waybill_json(const Binding& binding) {
  return [&binding](const EventView& event, Message& message) {
    append_waybill_json(message, event);
    return set_content_type(message, "application/json", binding.content_type);
  };
}

Dress raw(const Binding& binding) {
  return [&binding](const EventView& event, Message& message) {
    message.body = event.payload;
    if (!event.schema_id.empty()) message.headers.add(own_prefix, "schema-id", event.schema_id);
    if (event.schema_version)
      message.headers.add(own_prefix, "schema-version", fmt::format_int(*event.schema_version).c_str());
    return set_content_type(message, event.content_type, binding.content_type);
  };
}

Dress masstransit(std::vector<Template> types, const Binding& binding) {
  WAYBILL_ASSERT(!types.empty());
  return [types = std::move(types), &binding](const EventView& event, Message& message) {
    if (auto problem = append_masstransit_json(message, event, types); !problem.empty()) return problem;
    return set_content_type(message, "application/vnd.masstransit+json", binding.content_type);
  };
}

Dress dress_for(EnvelopeOptions&& options, const Binding& binding) {
  switch (options.envelope) {
    case Envelope::cloudevents:
      return binary(std::move(options.source), binding);
    case Envelope::cloudevents_structured:
      return structured(std::move(options.source), binding);
    case Envelope::waybill:
      return waybill_json(binding);
    case Envelope::raw:
      return raw(binding);
    case Envelope::masstransit:
      return masstransit(std::move(options.message_types), binding);
  }
  WAYBILL_ASSERT(false);
  return {};
}

}  // namespace

Encoder encoder(EnvelopeOptions options, const Binding& binding) {
  const auto prefix = options.envelope == Envelope::cloudevents ? binding.attribute_prefix : own_prefix;
  return [dress = dress_for(std::move(options), binding), prefix, &binding](const EventView& event, Message& message) {
    message.clear();
    auto problem = field_problem(event);
    if (problem.empty()) problem = append_own_headers(message.headers, event.headers, binding, prefix);
    if (!problem.empty()) return problem;
    set_properties(message, event);
    problem = dress(event, message);
    encode_lines(message.headers, binding);
    return problem.empty() ? size_problem(message.headers, binding) : problem;
  };
}

}  // namespace waybill
