#include <algorithm>
#include <array>

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
#include "base/json_text.h"
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
  filter.states = true;
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

// "published"; where destinations differ, how many there are of each state, those a person should look at first.
std::string states_text(const std::vector<EventAtDestination>& destinations) {
  constexpr std::array<std::string_view, 10> order{"dead",      "held",    "expired",   "retrying",  "blocked",
                                                   "scheduled", "pending", "dismissed", "published", "skipped"};
  std::string text;
  for (const std::string_view state : order) {
    const auto count = std::count_if(destinations.begin(), destinations.end(),
                                     [&](const EventAtDestination& at) { return at.state == state; });
    if (count == std::ssize(destinations)) return std::string(count == 0 ? "pending" : state);
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, state);
  }
  return text.empty() ? destinations.front().state : text;
}

std::string list_text(const EventList& list) {
  const Time now = system_clock().now();
  const auto& events = list.events;
  const bool tenants =
      std::any_of(events.begin(), events.end(), [](const EventView& event) { return event.tenant != "default"; });
  std::vector<Column> columns{"AGE", "ID", {"TOPIC", Fit::cut, 5}, {"KEY", Fit::cut, 5}, {"STATE", Fit::cut, 12}};
  if (tenants) columns.insert(columns.begin() + 3, {"TENANT", Fit::cut});
  Table table(columns);
  for (std::size_t i = 0; i < events.size(); ++i) {
    std::vector<std::string> cells{age_text(now - events[i].created_at), events[i].id.to_string(),
                                   std::string(events[i].topic), ordering_key(events[i]), states_text(list.states[i])};
    if (tenants) cells.insert(cells.begin() + 3, std::string(events[i].tenant));
    table.add(std::move(cells));
  }
  return table.text();
}

// The event with a member more: "states", an object with the state at each destination.
std::string item_json(const EventList& list, std::size_t index, bool payload) {
  std::string item = event_json(list.events[index], payload);
  item.pop_back();  // its brace
  item += ",\"states\":{";
  for (const auto& at : list.states[index]) {
    if (item.back() != '{') item += ',';
    append_json_string(item, at.destination);
    item += ':';
    append_json_string(item, at.state);
  }
  return item + "}}";
}

std::string list_json(const EventList& list, const EventsListOptions& options) {
  JsonWriter json;
  json.begin_object().name("events").begin_list();
  for (std::size_t i = 0; i < list.events.size(); ++i) json.raw(item_json(list, i, options.payload));
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
  for (std::size_t i = 0; i < list.events.size(); ++i) lines += item_json(list, i, options.payload) + '\n';
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
