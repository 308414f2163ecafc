#include <iostream>

#include <fmt/format.h>
#include <unistd.h>

#include "waybill/error.h"

#include "app/commands.h"
#include "app/event_flags.h"
#include "app/event_line.h"
#include "app/json_writer.h"
#include "app/selection.h"
#include "app/session.h"
#include "app/story.h"
#include "app/terminal.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "model/event_view.h"
#include "model/routing.h"
#include "model/validate.h"

namespace waybill::app {
namespace {

constexpr std::size_t body_bytes_shown = 500;

// An event, and what it points into.
struct Subject {
  Event event{};
  std::string headers{};
  Story story{};
  EventView view{};
};

Event read_line() {
  if (::isatty(STDIN_FILENO) == 1) say("reading one JSON object on one line");
  std::string line, more;
  std::getline(std::cin, line);
  if (std::getline(std::cin, more))
    throw Error(Remedy::fix_input, "standard input: more than one line; one event is tested");
  try {
    Event event = parse_event_line(line);
    validate(event);
    return event;
  } catch (const Error& error) {
    throw Error(Remedy::fix_input, fmt::format("standard input: {}", error.what()));
  }
}

void take_event(Subject& subject, Event event) {
  subject.event = std::move(event);
  if (!subject.event.id) subject.event.id = EventId::make();
  subject.headers = headers_json(subject.event.headers);
  subject.view = view_of(subject.event, subject.headers, system_clock().now());
}

// False if the store does not know the event.
bool take_stored(Subject& subject, const Settings& settings, const std::string& id_text) {
  const EventId id = parse_event_id(id_text);
  const auto store = ready_store(settings);
  auto story = find_story(*store->inspector(), id);
  if (!story) {
    say(fmt::format("{}: no event {}; it was never written, or cleaned up since", store->describe(), id.to_string()));
    return false;
  }
  subject.story = std::move(*story);
  subject.view = subject.story.told.event;
  return true;
}

struct Route {
  const Destination* destination = nullptr;
  std::string why_not{};  // Empty: it matches.
  std::optional<Preview> preview{};

  bool good() const { return why_not.empty() && (!preview || preview->refusal.empty()); }
};

Route route_to(const Destination& destination, const EventView& event) {
  Route route{.destination = &destination, .why_not = mismatch(destination.options.match, event)};
  if (route.why_not.empty() && destination.sink.preview) route.preview = destination.sink.preview(event);
  return route;
}

std::string body_text(const std::string& body, bool all) {
  if (!is_text(body))
    return fmt::format("({} bytes that are no text; --json --body shows them in base64)", body.size());
  if (all || body.size() <= body_bytes_shown) return harmless(body);
  std::size_t end = body_bytes_shown;
  while (end > 0 && (static_cast<unsigned char>(body[end]) & 0xC0U) == 0x80U) --end;  // No character is cut in two.
  return fmt::format("{}… ({} bytes; --body shows them all)", harmless(body.substr(0, end)), body.size());
}

std::string message_text(const Message& message, bool all_of_body) {
  std::string text;
  const auto line = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) text += fmt::format("  {:<16}{}\n", name, harmless(value));
  };
  line("content type", message.content_type);
  line("message id", message.id);
  line("type", message.type);
  line("correlation id", message.correlation_id);
  if (message.timestamp != Time{}) line("timestamp", to_rfc3339(message.timestamp));
  for (std::size_t i = 0; i < message.headers.size(); ++i)
    line("header", fmt::format("{}: {}", message.headers[i].name, message.headers[i].value));
  return text + fmt::format("  {:<16}{}\n", "body", body_text(message.body, all_of_body));
}

std::string route_text(const Route& route, bool all_of_body) {
  const std::string name = fmt::format("{} ({})", route.destination->options.name, route.destination->type);
  if (!route.why_not.empty()) return fmt::format("{}: no: {}\n", name, harmless(route.why_not));
  if (!route.preview) return fmt::format("{}: {}\n", name, paint(Colour::green, "yes"));
  if (!route.preview->refusal.empty())
    return fmt::format("{}: {}: {}\n", name, paint(Colour::red, "rejected"), harmless(route.preview->refusal));
  const std::string& about = route.preview->note;
  return fmt::format("{}: {}: {}\n", name, paint(Colour::green, "yes"), harmless(route.preview->address)) +
         (about.empty() ? "" : fmt::format("  {:<16}{}\n", "note", about)) +
         message_text(route.preview->message, all_of_body);
}

// A text, or null if it is empty.
void write_text(JsonWriter& json, std::string_view name, std::string_view text) {
  json.field(name, text.empty() ? std::nullopt : std::optional(text));
}

void write_body(JsonWriter& json, const std::string& body, bool shown) {
  const bool text = is_text(body);
  std::string base64;
  if (shown && !text) append_base64(base64, body);
  json.field("body", shown && text ? std::optional<std::string_view>(body) : std::nullopt);
  json.field("body_base64", shown && !text ? std::optional<std::string_view>(base64) : std::nullopt);
  json.field("body_bytes", static_cast<std::int64_t>(body.size()));
}

void write_message(JsonWriter& json, const Message& message, bool with_body) {
  json.begin_object();
  write_text(json, "content_type", message.content_type);
  write_text(json, "message_id", message.id);
  write_text(json, "type", message.type);
  write_text(json, "correlation_id", message.correlation_id);
  json.field("timestamp", message.timestamp == Time{} ? std::nullopt : std::optional(message.timestamp));
  json.name("headers").begin_list();
  for (std::size_t i = 0; i < message.headers.size(); ++i)
    json.begin_object().field("name", message.headers[i].name).field("value", message.headers[i].value).end_object();
  json.end_list();
  write_body(json, message.body, with_body);
  json.end_object();
}

void write_route(JsonWriter& json, const Route& route, bool with_body) {
  json.begin_object().field("destination", std::string_view(route.destination->options.name));
  json.field("type", std::string_view(route.destination->type)).field("matches", route.why_not.empty());
  write_text(json, "why_not", route.why_not);
  write_text(json, "rejected", route.preview ? route.preview->refusal : "");
  const bool good = route.preview && route.good();
  write_text(json, "address", good ? route.preview->address : "");
  write_text(json, "note", good ? route.preview->note : "");
  json.name("message");
  if (good) {
    write_message(json, route.preview->message, with_body);
  } else {
    json.null();
  }
  json.end_object();
}

std::string routes_json(const std::vector<Route>& routes, const EventView& event, bool with_body) {
  JsonWriter json;
  json.begin_object().field("event", std::string_view(event.id.to_string())).name("destinations").begin_list();
  for (const auto& route : routes) write_route(json, route, with_body);
  json.end_list().end_object();
  return json.take();
}

std::string routes_text(const std::vector<Route>& routes, bool all_of_body) {
  std::string text;
  for (const auto& route : routes) text += route_text(route, all_of_body);
  return text;
}

ExitCode judge(const std::vector<Route>& routes) {
  bool anywhere = false;
  bool refused = false;
  for (const auto& route : routes) {
    anywhere = anywhere || route.why_not.empty();
    refused = refused || (route.why_not.empty() && !route.good());
  }
  if (!anywhere) note("no destination gets this event");
  return anywhere && !refused ? ExitCode::ok : ExitCode::unhealthy;
}

}  // namespace

ExitCode route_test(const Sources& sources, const RouteTestOptions& options) {
  const Settings settings = load_settings(sources);
  if (settings.destinations.empty())
    throw Error(Remedy::fix_config, "there is no destination; add a [destinations.NAME] to the configuration");
  Subject subject;
  if (options.id.empty()) {
    take_event(subject, options.event.topic.empty() ? read_line() : event_of(options.event));
  } else if (!take_stored(subject, settings, options.id)) {
    return ExitCode::failure;
  }
  std::vector<Route> routes;
  for (const auto& destination : settings.destinations) routes.push_back(route_to(destination, subject.view));
  print(options.json ? routes_json(routes, subject.view, options.body) : routes_text(routes, options.body));
  return judge(routes);
}

}  // namespace waybill::app
