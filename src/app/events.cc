#include <fmt/format.h>

#include "waybill/error.h"

#include "app/aggregate_text.h"
#include "app/commands.h"
#include "app/json_writer.h"
#include "app/moment.h"
#include "app/session.h"
#include "app/terminal.h"
#include "base/time_text.h"
#include "model/envelope.h"

namespace waybill::app {
namespace {

EventFilter filter_of(const EventsListOptions& options) {
  EventFilter filter;
  filter.topic = options.topic;
  filter.type = options.type;
  filter.tenant = options.tenant;
  filter.key = options.key;
  if (!options.aggregate.empty()) {
    const Aggregate aggregate = parse_aggregate(options.aggregate);
    filter.aggregate_type = aggregate.type;
    filter.aggregate_id = aggregate.id;
  }
  const Time now = system_clock().now();
  if (!options.since.empty()) filter.since = parse_moment("--since", options.since, now, Direction::past);
  if (!options.until.empty()) filter.until = parse_moment("--until", options.until, now, Direction::past);
  filter.before_seq = options.before;
  filter.limit = options.limit;
  return filter;
}

// Payloads may hold what not everyone should see: they are shown when asked for.
std::string event_json(EventView event, bool with_payload) {
  if (!with_payload) {
    event.payload = {};
    event.payload_is_json = true;  // Nothing to encode.
  }
  std::string json;
  append_event_json(json, event);
  return json;
}

std::string list_text(const EventList& list) {
  Table table({"CREATED", "ID", "TOPIC", "TYPE", "TENANT", "KEY"});
  for (const auto& event : list.events)
    table.add({to_rfc3339(event.created_at), event.id.to_string(), std::string(event.topic),
               event.type == event.topic ? "" : std::string(event.type), std::string(event.tenant),
               ordering_key(event)});
  return table.text();
}

std::string list_json(const EventList& list, const EventsListOptions& options) {
  JsonWriter json;
  json.begin_object().name("events").begin_list();
  for (const auto& event : list.events) json.raw(event_json(event, options.payload));
  json.end_list().name("next_before");
  // A full page may have another behind it.
  if (static_cast<int>(list.events.size()) == options.limit) {
    json.value(list.events.back().seq);
  } else {
    json.null();
  }
  json.end_object();
  return json.take();
}

std::string list_json_lines(const EventList& list, const EventsListOptions& options) {
  std::string lines;
  for (const auto& event : list.events) lines += event_json(event, options.payload) + '\n';
  return lines;
}

std::string fields_text(const EventView& event) {
  std::string text;
  const auto line = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) text += fmt::format("{:<16}{}\n", name, harmless(value));
  };
  const auto number = [&](std::string_view name, const auto& value) {
    if (value) line(name, fmt::format("{}", *value));
  };
  const auto time = [&](std::string_view name, const std::optional<Time>& value) {
    if (value) line(name, to_rfc3339(*value));
  };
  line("id", event.id.to_string());
  line("seq", fmt::format("{}", event.seq));
  line("shard", fmt::format("{}", event.shard));
  line("tenant", event.tenant);
  line("topic", event.topic);
  line("type", event.type);
  line("aggregate_type", event.aggregate_type);
  line("aggregate_id", event.aggregate_id);
  number("version", event.version);
  line("key", event.key);
  line("content_type", event.content_type);
  line("routing_key", event.routing_key);
  line("schema_id", event.schema_id);
  number("schema_version", event.schema_version);
  time("occurred_at", event.occurred_at);
  time("not_before", event.not_before);
  time("expires_at", event.expires_at);
  number("attempts_max", event.attempts_max);
  line("dedup_key", event.dedup_key);
  line("headers", event.headers);
  line("metadata", event.metadata);
  return text;
}

std::string story_text(const EventStory& story, bool with_payload) {
  std::string text = fields_text(story.event);
  text += fmt::format("\n{}  written\n", to_rfc3339(story.event.created_at));
  for (const auto& at : story.destinations)
    text += fmt::format("{:<27}  {} at {}\n", at.settled_at ? to_rfc3339(*at.settled_at) : "-", at.state,
                        harmless(at.destination));
  if (!with_payload) return text;
  if (story.event.payload_is_json) return text + fmt::format("\n{}\n", story.event.payload);
  return text +
         fmt::format("\n({} bytes that are not JSON; --json shows them in base64)\n", story.event.payload.size());
}

std::string story_json(const EventStory& story, bool with_payload) {
  JsonWriter json;
  json.begin_object().name("event").raw(event_json(story.event, with_payload));
  json.name("destinations").begin_list();
  for (const auto& at : story.destinations)
    json.begin_object()
        .field("destination", at.destination)
        .field("state", at.state)
        .field("settled_at", at.settled_at)
        .end_object();
  json.end_list().end_object();
  return json.take();
}

}  // namespace

ExitCode events_list(const Sources& sources, const EventsListOptions& options) {
  const EventFilter filter = filter_of(options);
  const Settings settings = load_settings(sources);
  const auto store = open_store_quietly(settings);
  require_schema(*store);
  const EventList list = store->inspector()->list(filter);
  print(options.json         ? list_json(list, options)
        : options.json_lines ? list_json_lines(list, options)
                             : list_text(list));
  return ExitCode::ok;
}

ExitCode events_show(const Sources& sources, const EventsShowOptions& options) {
  const auto id = EventId::parse(options.id);
  if (!id)
    throw Error(Remedy::fix_input, fmt::format("'{}' is no event id; 'waybill events list' shows them", options.id));
  const Settings settings = load_settings(sources);
  const auto store = open_store_quietly(settings);
  require_schema(*store);
  const auto story = store->inspector()->find(*id);
  if (!story) {
    say(fmt::format("{}: no event {}; it was never written, or cleaned up since", store->describe(), id->to_string()));
    return ExitCode::failure;
  }
  print(options.json ? story_json(*story, options.payload) : story_text(*story, options.payload));
  return ExitCode::ok;
}

}  // namespace waybill::app
