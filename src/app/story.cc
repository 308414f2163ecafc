#include "app/story.h"

#include <algorithm>

#include <fmt/format.h>

#include "app/dialogue.h"
#include "app/terminal.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "model/event_json.h"
#include "model/routing.h"
#include "model/rules_json.h"

namespace waybill::app {
namespace {

// More destinations than anybody has.
constexpr int destinations_max = 10'000;

const UndeliveredView* undelivered_at(const Story& story, const std::string& destination) {
  const auto& views = story.undelivered.events;
  const auto found = std::find_if(views.begin(), views.end(),
                                  [&](const UndeliveredView& view) { return view.destination == destination; });
  return found == views.end() ? nullptr : &*found;
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

std::string standing_text(const UndeliveredView& view) {
  std::string text =
      fmt::format("{:<29}since {}, {}", "", to_rfc3339(view.since), counted(view.row.attempts, "attempt"));
  if (view.redrives > 0) text += fmt::format(", {}", counted(view.redrives, "redrive"));
  if (!view.edit.empty()) text += ", edited";
  if (view.due) text += fmt::format(", next try {}", to_rfc3339(*view.due));
  text += '\n';
  if (!view.row.error.empty()) text += fmt::format("{:<29}{}\n", "", harmless(view.row.error));
  if (view.edit.headers) text += fmt::format("{:<29}headers instead: {}\n", "", harmless(*view.edit.headers));
  return text;
}

std::string payload_text(bool is_json, std::string_view payload) {
  if (is_json) return fmt::format("{}\n", payload);
  return fmt::format("({} bytes that are not JSON; --json shows them in base64)\n", payload.size());
}

// What the event says, and what goes out instead where it was edited.
std::string payloads_text(const Story& story) {
  const EventView& event = story.told.event;
  std::string instead;
  for (const auto& view : story.undelivered.events)
    if (view.edit.payload)
      instead += fmt::format("\npayload edited for {}, sent instead:\n{}", harmless(view.destination),
                             payload_text(event.payload_is_json, *view.edit.payload));
  return fmt::format("\n{}{}{}", instead.empty() ? "" : "payload as it was written:\n",
                     payload_text(event.payload_is_json, event.payload), instead);
}

// Why a skipped event was not sent.
std::string reason(const EventAtDestination& at, const EventView& event) {
  if (!at.skipped_by) return "the destination began after it (start = \"now\")";
  return fmt::format("{} (rules since {})", mismatch(at.skipped_by->match, event), to_rfc3339(at.skipped_by->since));
}

std::string destination_text(const EventAtDestination& at, const EventView& event, const UndeliveredView* view) {
  std::string text = fmt::format("{:<27}  {} at {}\n", at.settled_at ? to_rfc3339(*at.settled_at) : "-", at.state,
                                 harmless(at.destination));
  if (at.state == "skipped") text += fmt::format("{:<29}{}\n", "", harmless(reason(at, event)));
  if (view != nullptr) text += standing_text(*view);
  for (const auto& attempt : at.attempts)
    text += fmt::format("{}    attempt {}: {}{}{}\n", to_rfc3339(attempt.at), attempt.number,
                        to_string(attempt.outcome), attempt.error.empty() ? "" : ": ", harmless(attempt.error));
  return text;
}

// JSON has no line break inside a token, so a space means the same.
std::string one_line(std::string json) {
  std::replace_if(
      json.begin(), json.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return json;
}

void write_edit(JsonWriter& json, const UndeliveredView& view, bool with_payload) {
  json.name("edit");
  if (view.edit.empty()) {
    json.null();
    return;
  }
  json.begin_object();
  if (with_payload && view.edit.payload) {
    if (view.event.payload_is_json) {
      json.name("payload").raw(one_line(*view.edit.payload));
    } else {
      std::string text;
      append_base64(text, *view.edit.payload);
      json.field("payload_base64", text);
    }
  }
  if (view.edit.headers) json.name("headers").raw(one_line(*view.edit.headers));
  json.end_object();
}

void write_skipped(JsonWriter& json, const EventAtDestination& at, const EventView& event) {
  json.name("skipped");
  if (at.state != "skipped") {
    json.null();
    return;
  }
  json.begin_object().field("why", reason(at, event)).name("match");
  if (at.skipped_by) {
    json.raw(rules_json(at.skipped_by->match)).field("since", at.skipped_by->since);
  } else {
    json.null().field("since", std::optional<Time>());
  }
  json.end_object();
}

void write_destination(JsonWriter& json, const EventAtDestination& at, const EventView& event,
                       const UndeliveredView* view, bool with_payload) {
  json.begin_object().field("destination", at.destination).field("state", at.state).field("settled_at", at.settled_at);
  write_skipped(json, at, event);
  json.name("undelivered");
  if (view != nullptr) {
    json.begin_object();
    write_standing(json, *view, with_payload);
    json.end_object();
  } else {
    json.null();
  }
  json.name("attempts").begin_list();
  for (const auto& attempt : at.attempts)
    json.begin_object()
        .field("number", attempt.number)
        .field("at", attempt.at)
        .field("outcome", to_string(attempt.outcome))
        .field("error", attempt.error)
        .end_object();
  json.end_list().end_object();
}

}  // namespace

std::string event_json(EventView event, bool with_payload) {
  if (!with_payload) {
    event.payload = {};
    event.payload_is_json = true;  // Nothing to encode.
  }
  std::string json;
  append_event_json(json, event);
  return json;
}

void write_standing(JsonWriter& json, const UndeliveredView& view, bool with_payload) {
  json.field("standing", to_string(view.row.standing)).field("since", view.since).field("due", view.due);
  json.field("attempts", view.row.attempts).field("redrives", view.redrives).field("edited", !view.edit.empty());
  write_edit(json, view, with_payload);
  json.field("error", view.row.error);
}

std::optional<Story> find_story(Inspector& inspector, const EventId& id) {
  Story story;
  UndeliveredFilter filter;
  filter.ids = {id};
  filter.limit = destinations_max;
  filter.payloads = true;
  story.undelivered = inspector.undelivered(filter);
  if (auto told = inspector.find(id)) {
    story.told = std::move(*told);
    return story;
  }
  // The log may have been cleaned; a dead letter outlives it.
  if (story.undelivered.events.empty()) return std::nullopt;
  story.told.event = story.undelivered.events.front().event;
  for (const auto& view : story.undelivered.events) {
    EventAtDestination at;
    at.destination = view.destination;
    at.state = to_string(view.row.standing);
    story.told.destinations.push_back(std::move(at));
  }
  return story;
}

std::string story_text(const Story& story, bool with_payload) {
  const EventView& event = story.told.event;
  std::string text = fields_text(event);
  text += fmt::format("\n{}  written\n", to_rfc3339(event.created_at));
  for (const auto& at : story.told.destinations)
    text += destination_text(at, event, undelivered_at(story, at.destination));
  return with_payload ? text + payloads_text(story) : text;
}

std::string story_json(const Story& story, bool with_payload) {
  JsonWriter json;
  json.begin_object().name("event").raw(event_json(story.told.event, with_payload));
  json.name("destinations").begin_list();
  for (const auto& at : story.told.destinations)
    write_destination(json, at, story.told.event, undelivered_at(story, at.destination), with_payload);
  json.end_list().end_object();
  return json.take();
}

}  // namespace waybill::app
