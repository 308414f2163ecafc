#include <algorithm>

#include <fmt/format.h>

#include "waybill/error.h"

#include "app/commands.h"
#include "app/dialogue.h"
#include "app/json_writer.h"
#include "app/moment.h"
#include "app/selection.h"
#include "app/session.h"
#include "app/terminal.h"
#include "base/time_text.h"
#include "model/count_text.h"

namespace waybill::app {
namespace {

Operation operation_of(const Sources& sources, const ActOptions& options) {
  return {.id = EventId::make(), .by = operator_name(sources.environment, options.by)};
}

// What a command has done to a destination, or would do.
std::string as_json(std::string_view kind, const Operation& operation, const std::string& destination, bool dry,
                    const std::optional<Count>& events) {
  JsonWriter json;
  json.begin_object().field("kind", kind).name("operation");
  if (dry) {
    json.null();
  } else {
    json.value(operation.id.to_string());
  }
  json.field("destination", destination).field("dry_run", dry);
  if (events) json.field("events", *events);
  json.end_object();
  return json.take();
}

bool is_configured(const Settings& settings, const std::string& name) {
  return std::any_of(settings.destinations.begin(), settings.destinations.end(),
                     [&](const Destination& destination) { return destination.options.name == name; });
}

bool is_paused(const StoreStatus& status, const std::string& name) {
  return std::any_of(status.destinations.begin(), status.destinations.end(),
                     [&](const DestinationStatus& each) { return each.name == name && each.paused; });
}

int relays_of(const StoreStatus& status, const std::string& name) {
  return static_cast<int>(std::count_if(status.relays.begin(), status.relays.end(), [&](const RelayStatus& relay) {
    const auto& names = relay.destinations;
    return relay.alive && std::find(names.begin(), names.end(), name) != names.end();
  }));
}

ExitCode set_paused(const Sources& sources, const DestinationActOptions& options, bool paused) {
  const auto store = ready_store(load_settings(sources));
  const auto at_work = store->operate();  // First: a user without the role is told which one this takes.
  const StoreStatus status = store->inspector()->status();
  require_destination(status, options.destination);
  const Operation operation = operation_of(sources, options.act);
  const std::string_view kind = paused ? "pause" : "resume";
  const bool already = is_paused(status, options.destination) == paused;
  if (!options.act.dry_run) at_work->pause(operation, options.destination, paused);
  if (options.act.json) {
    print(as_json(kind, operation, options.destination, options.act.dry_run, std::nullopt));
  } else if (options.act.dry_run) {
    print(fmt::format("would {} '{}'{}\n", kind, options.destination, already ? ", which it is already" : ""));
  } else {
    note(paused ? fmt::format("'{}' is paused; events wait for 'waybill resume {}'", options.destination,
                              options.destination)
                : fmt::format("'{}' goes on", options.destination));
  }
  return ExitCode::ok;
}

RewindTo place_of(const RewindOptions& options) {
  const int given = (options.to.empty() ? 0 : 1) + (options.event.empty() ? 0 : 1) + (options.beginning ? 1 : 0);
  if (given != 1) throw Error(Remedy::fix_input, "give one of --to, --event and --beginning");
  RewindTo place;
  if (!options.to.empty()) place.time = parse_moment("--to", options.to, system_clock().now(), Direction::past);
  if (!options.event.empty()) place.event = parse_event_id(options.event);
  return place;
}

}  // namespace

ExitCode pause(const Sources& sources, const DestinationActOptions& options) {
  return set_paused(sources, options, true);
}

ExitCode resume(const Sources& sources, const DestinationActOptions& options) {
  return set_paused(sources, options, false);
}

ExitCode rewind(const Sources& sources, const RewindOptions& options) {
  const RewindTo place = place_of(options);
  const auto store = ready_store(load_settings(sources));
  const auto at_work = store->operate();
  require_destination(store->inspector()->status(), options.destination);
  const Operation operation = operation_of(sources, options.act);
  const Count preview = at_work->rewind(operation, options.destination, place, true);
  const std::string what =
      fmt::format("rewind '{}', so that about {} are sent again", options.destination, counted(preview, "event"));
  if (options.act.dry_run) {
    print(options.act.json ? as_json("rewind", operation, options.destination, true, preview)
                           : fmt::format("would {}\n", what));
    return ExitCode::ok;
  }
  if (!confirm(what, options.act.yes)) return ExitCode::failure;
  const Count again = at_work->rewind(operation, options.destination, place, false);
  if (options.act.json) print(as_json("rewind", operation, options.destination, false, again));
  note(fmt::format("'{}' is rewound; about {} are sent again", options.destination, counted(again, "event")));
  return ExitCode::ok;
}

ExitCode destinations_list(const Sources& sources, const DestinationsListOptions& options) {
  const Settings settings = load_settings(sources);
  const StoreStatus status = ready_store(settings)->inspector()->status();
  Table table({{"DESTINATION", Fit::cut}, "CONFIGURED", "RELAYS", "PAUSED", "PENDING", "LAST SETTLED"});
  JsonWriter json;
  json.begin_object().name("destinations").begin_list();
  for (const auto& each : status.destinations) {
    const bool configured = is_configured(settings, each.name);
    const int relays = relays_of(status, each.name);
    table.add({each.name, configured ? "yes" : "no", fmt::format("{}", relays), each.paused ? "yes" : "no",
               count_text(each.pending), each.last_settled ? age_text(status.now - *each.last_settled) : "-"});
    json.begin_object().field("name", each.name).field("configured", configured).field("relays", relays);
    json.field("paused", each.paused).field("pending", each.pending).field("last_settled", each.last_settled);
    json.end_object();
  }
  json.end_list().end_object();
  print(options.json ? json.take() : table.text());
  return ExitCode::ok;
}

ExitCode destinations_forget(const Sources& sources, const DestinationActOptions& options) {
  const Settings settings = load_settings(sources);
  const auto store = ready_store(settings);
  const auto at_work = store->operate();
  require_destination(store->inspector()->status(), options.destination);
  const Operation operation = operation_of(sources, options.act);
  const Count preview = at_work->forget(operation, options.destination, true);
  const std::string what =
      fmt::format("forget '{}', which would still have been sent {}", options.destination, counted(preview, "event"));
  if (is_configured(settings, options.destination))
    note(fmt::format("'{}' is still configured: a relay would begin with it anew", options.destination));
  if (options.act.dry_run) {
    print(options.act.json ? as_json("forget", operation, options.destination, true, preview)
                           : fmt::format("would {}\n", what));
    return ExitCode::ok;
  }
  if (!confirm(what, options.act.yes)) return ExitCode::failure;
  const Count lost = at_work->forget(operation, options.destination, false);
  if (options.act.json) print(as_json("forget", operation, options.destination, false, lost));
  note(fmt::format("'{}' is forgotten; it holds the log back no longer", options.destination));
  return ExitCode::ok;
}

}  // namespace waybill::app
