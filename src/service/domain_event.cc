#include "waybill/domain_event.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"

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
constexpr Member correlation{"correlation-id", &EventContext::correlation_id};
constexpr Member traceparent{"traceparent", &EventContext::traceparent};
constexpr Member tracestate{"tracestate", &EventContext::tracestate};
constexpr std::array in_all{&EventContext::source, &EventContext::correlation_id, &EventContext::causation_id,
                            &EventContext::actor,  &EventContext::traceparent,    &EventContext::tracestate};

// What is there stays as it is written, to the byte.
std::string metadata_with_context(const std::string& metadata) {
  const std::string before = metadata.empty() ? "{}" : metadata;
  const auto json = nlohmann::json::parse(before, nullptr, false);
  if (!json.is_object()) return metadata;  // Refused when it is enqueued.
  std::string members;
  for (const auto& [name, field] : in_metadata) {
    if ((context.*field).empty() || json.contains(name)) continue;
    const std::string_view comma = json.empty() && members.empty() ? "" : ",";
    members += fmt::format("{}{}:{}", comma, json_string(name), json_string(context.*field));
  }
  return members.empty() ? metadata : std::string(before).insert(before.rfind('}'), members);
}

// Names of headers are the same in any case.
bool has_header(const Event& event, std::string_view name) {
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  return std::any_of(event.headers.begin(), event.headers.end(), [&](const Header& header) {
    return std::equal(header.name.begin(), header.name.end(), name.begin(), name.end(), same);
  });
}

void add_header(Event& event, const Member& member) {
  const std::string& value = context.*member.field;
  if (!value.empty()) event.headers.push_back({.name = std::string(member.name), .value = value});
}

}  // namespace

UnknownType::UnknownType(const std::string& type)
    : Error(
          Remedy::fix_config,
          fmt::format("nobody has said what to do with events of type '{}'; add a handler, or ignore_others()", type)),
      type_(type) {}

void detail::throw_form(const RecordedEvent& event, std::int32_t wanted) {
  const std::int32_t given = event.schema_version.value_or(1);
  throw Error(
      Remedy::fix_input,
      fmt::format("event {} of type '{}' is in form {}, which is {} {}", event.id.to_string(), event.type, given,
                  given > wanted ? "newer than the one that is known here:" : "not brought by any upcaster to",
                  wanted));
}

EventContextScope::EventContextScope(const EventContext& inner) : before_(context) {
  for (const auto field : in_all)
    if (!is_text(inner.*field)) throw Error(Remedy::fix_input, "an event's context is not UTF-8 text without NUL");
  if (!inner.traceparent.empty()) context.tracestate.clear();  // It is of another trace.
  for (const auto field : in_all)
    if (!(inner.*field).empty()) context.*field = inner.*field;
}

EventContextScope::~EventContextScope() {
  context = std::move(before_);
}

const EventContext& EventContextScope::current() {
  return context;
}

void add_context(Event& event) {
  event.metadata = metadata_with_context(event.metadata);
  if (!has_header(event, correlation.name)) add_header(event, correlation);
  // They go together: one of them is of the trace that the other tells.
  if (has_header(event, traceparent.name) || has_header(event, tracestate.name)) return;
  add_header(event, traceparent);
  add_header(event, tracestate);
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
