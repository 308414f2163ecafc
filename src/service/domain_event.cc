#include "waybill/domain_event.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace waybill {
namespace {

thread_local EventContext context;

struct Member {
  std::string_view name;
  std::string EventContext::*field;
};
constexpr std::array in_metadata{
    Member{"source", &EventContext::source}, Member{"correlation_id", &EventContext::correlation_id},
    Member{"causation_id", &EventContext::causation_id}, Member{"actor", &EventContext::actor}};
constexpr std::array in_headers{Member{"correlation-id", &EventContext::correlation_id},
                                Member{"traceparent", &EventContext::traceparent},
                                Member{"tracestate", &EventContext::tracestate}};

std::string metadata_with_context(const std::string& metadata) {
  auto json =
      metadata.empty() ? nlohmann::ordered_json::object() : nlohmann::ordered_json::parse(metadata, nullptr, false);
  if (!json.is_object()) return metadata;  // Refused when it is enqueued.
  const auto before = json.size();
  for (const auto& [name, field] : in_metadata)
    if (!(context.*field).empty() && !json.contains(name)) json[std::string(name)] = context.*field;
  constexpr auto replace = nlohmann::ordered_json::error_handler_t::replace;
  return json.size() == before ? metadata : json.dump(-1, ' ', false, replace);
}

}  // namespace

UnknownType::UnknownType(const std::string& type)
    : Error(
          Remedy::fix_config,
          fmt::format("nobody has said what to do with events of type '{}'; add a handler, or ignore_others()", type)) {
}

void detail::throw_form(const RecordedEvent& event, std::int32_t wanted) {
  const std::int32_t given = event.schema_version.value_or(1);
  throw Error(
      Remedy::fix_input,
      fmt::format("event {} of type '{}' is in form {}, which is {} {}", event.id.to_string(), event.type, given,
                  given > wanted ? "newer than the one that is known here:" : "not brought by any upcaster to",
                  wanted));
}

EventContextScope::EventContextScope(EventContext inner) : before_(context) {
  for (const auto field : {&EventContext::source, &EventContext::correlation_id, &EventContext::causation_id,
                           &EventContext::actor, &EventContext::traceparent, &EventContext::tracestate})
    if (!(inner.*field).empty()) context.*field = std::move(inner.*field);
}

EventContextScope::~EventContextScope() {
  context = std::move(before_);
}

const EventContext& EventContextScope::current() {
  return context;
}

void add_context(Event& event) {
  event.metadata = metadata_with_context(event.metadata);
  for (const auto& [name, field] : in_headers) {
    const auto there = std::any_of(event.headers.begin(), event.headers.end(),
                                   [&](const Header& header) { return header.name == name; });
    if (!there && !(context.*field).empty())
      event.headers.push_back({.name = std::string(name), .value = context.*field});
  }
}

Event detail::new_event(std::string_view topic, std::string_view type, std::int32_t schema_version,
                        std::string payload) {
  Event event;
  event.topic = topic;
  event.type = type;
  event.payload = std::move(payload);
  event.schema_version = schema_version;
  event.occurred_at = system_clock().now();
  event.id = EventId::make();
  add_context(event);
  return event;
}

}  // namespace waybill
