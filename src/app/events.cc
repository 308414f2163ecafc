#include <fmt/format.h>

#include "waybill/error.h"

#include "app/aggregate_text.h"
#include "app/commands.h"
#include "app/json_writer.h"
#include "app/moment.h"
#include "app/selection.h"
#include "app/session.h"
#include "app/story.h"
#include "app/terminal.h"
#include "app/undelivered_list.h"
#include "base/time_text.h"
#include "model/standing.h"

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
  filter.payloads = options.payload;
  return filter;
}

UndeliveredFilter undelivered_filter(const EventFilter& filter, const std::vector<Standing>& standings) {
  UndeliveredFilter undelivered;
  undelivered.standings = standings;
  undelivered.topic = filter.topic;
  undelivered.type = filter.type;
  undelivered.tenant = filter.tenant;
  undelivered.aggregate_type = filter.aggregate_type;
  undelivered.aggregate_id = filter.aggregate_id;
  undelivered.key = filter.key;
  undelivered.since = filter.since;
  undelivered.until = filter.until;
  undelivered.before_seq = filter.before_seq;
  undelivered.limit = filter.limit;
  return undelivered;
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

}  // namespace

ExitCode events_list(const Sources& sources, const EventsListOptions& options) {
  const EventFilter filter = filter_of(options);
  const auto standings =
      parse_standings(options.standings, std::vector<Standing>(all_standings.begin(), all_standings.end()));
  const auto store = ready_store(load_settings(sources));
  const auto inspector = store->inspector();
  if (!standings.empty()) {
    print_undelivered(*inspector, undelivered_filter(filter, standings),
                      {.payload = options.payload, .json = options.json, .json_lines = options.json_lines});
    return ExitCode::ok;
  }
  const EventList list = inspector->list(filter);
  print(options.json         ? list_json(list, options)
        : options.json_lines ? list_json_lines(list, options)
                             : list_text(list));
  if (static_cast<int>(list.events.size()) == options.limit && !options.json && !options.json_lines)
    note(fmt::format("there may be more: --before {}", list.events.back().seq));
  return ExitCode::ok;
}

ExitCode events_show(const Sources& sources, const EventsShowOptions& options) {
  const EventId id = parse_event_id(options.id);
  const auto store = ready_store(load_settings(sources));
  const auto story = find_story(*store->inspector(), id);
  if (!story) {
    say(fmt::format("{}: no event {}; it was never written, or cleaned up since", store->describe(), id.to_string()));
    return ExitCode::failure;
  }
  print(options.json ? story_json(*story, options.payload) : story_text(*story, options.payload));
  return ExitCode::ok;
}

}  // namespace waybill::app
