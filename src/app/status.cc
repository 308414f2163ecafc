#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "waybill/error.h"

#include "app/commands.h"
#include "app/dialogue.h"
#include "app/json_writer.h"
#include "app/session.h"
#include "app/terminal.h"
#include "base/time_text.h"
#include "model/count_text.h"
#include "model/rules_json.h"
#include "model/standing.h"
#include "upkeep/alerts.h"

namespace waybill::app {
namespace {

// Relays that were not seen for so long are only counted, unless all are asked for.
constexpr std::chrono::minutes recently{10};

std::string age_or_dash(Time now, const std::optional<Time>& time) {
  return time ? age_text(now - *time) : "-";
}

Count standing(const DestinationStatus& destination, Standing standing) {
  const auto found = destination.undelivered.find(standing);
  return found == destination.undelivered.end() ? Count{} : found->second;
}

// Events, and the keys that they wait behind.
std::string blocked_text(const DestinationStatus& destination) {
  const std::string events = count_text(standing(destination, Standing::blocked));
  return destination.blocked_keys.value == 0 ? events
                                             : fmt::format("{} ({} {})", events, count_text(destination.blocked_keys),
                                                           destination.blocked_keys.value == 1 ? "key" : "keys");
}

std::string destinations_text(const StoreStatus& status) {
  if (status.destinations.empty())
    return "no destination is known yet: 'waybill run' makes those of the configuration known\n";
  Table progress({{"DESTINATION", Fit::cut}, "PENDING", "OLDEST", "LAST MINUTE", "LAST SETTLED", "PAUSED", "SHARDS"});
  for (const auto& d : status.destinations)
    progress.add({d.name, count_text(d.pending), age_or_dash(status.now, d.oldest_pending),
                  fmt::format("{}", d.settled_last_minute), age_or_dash(status.now, d.last_settled),
                  d.paused ? "yes" : "no", fmt::format("{}/{}", d.shards_owned, d.shards)});
  return progress.text();
}

// Destinations without undelivered events have no line; what was dismissed is over and has no column.
std::string undelivered_text(const StoreStatus& status) {
  Table table({{"UNDELIVERED AT", Fit::cut}, "RETRYING", "BLOCKED", "SCHEDULED", "HELD", "EXPIRED", "DEAD"});
  bool any = false;
  for (const auto& d : status.destinations) {
    const auto here = [&](Standing each) { return standing(d, each).value > 0 && each != Standing::dismissed; };
    if (std::none_of(all_standings.begin(), all_standings.end(), here)) continue;
    any = true;
    table.add({d.name, count_text(standing(d, Standing::retrying)), blocked_text(d),
               count_text(standing(d, Standing::scheduled)), count_text(standing(d, Standing::held)),
               count_text(standing(d, Standing::expired)), count_text(standing(d, Standing::dead))});
  }
  return any ? table.text() : "";
}

std::string relays_text(const StoreStatus& status, std::size_t older) {
  std::string text = "no relay is at work\n";
  if (!status.relays.empty()) {
    Table relays({{"RELAY", Fit::cut}, "ALIVE", "SEEN", "SHARDS", {"DESTINATIONS", Fit::cut}});
    for (const auto& r : status.relays)
      relays.add({r.name, r.alive ? "yes" : "no", age_text(status.now - r.last_seen), fmt::format("{}", r.shards_owned),
                  fmt::format("{}", fmt::join(r.destinations, ", "))});
    text = relays.text();
  }
  if (older > 0)
    text += fmt::format("{} not seen for {}; --all shows {}\n", counted(static_cast<std::int64_t>(older), "relay"),
                        age_text(recently), older == 1 ? "it" : "them");
  return text;
}

std::string projections_text(const StoreStatus& status) {
  if (status.projections.empty()) return "";
  Table projections({{"PROJECTION", Fit::cut}, "HANDLED", "BEHIND", "LAG", "SEEN"});
  for (const auto& p : status.projections)
    projections.add({p.shadow ? p.name + " (rebuild)" : p.name, fmt::format("{}", p.handled),
                     count_text({.value = p.behind, .exact = p.behind < ProjectionProgress::behind_max}),
                     p.behind == 0 ? "-" : age_text(p.lag), age_text(status.now - p.changed_at)});
  return projections.text();
}

std::string alerts_text(const std::vector<Alert>& found) {
  std::string text;
  for (const auto& alert : found)
    text += fmt::format("{}{}{}: {}\n", paint(Colour::red, "alert"), alert.destination.empty() ? "" : " ",
                        harmless(alert.destination), harmless(alert.text));
  return text;
}

std::string as_text(const StoreStatus& status, const std::vector<Alert>& found, std::size_t older) {
  const std::string where = status.where.starts_with(status.store) ? status.where : status.store + " " + status.where;
  std::string text =
      fmt::format("{}, schema {}, {}\n", harmless(where), status.schema_version, counted(status.events, "event"));
  for (const std::string& part : {destinations_text(status), undelivered_text(status), relays_text(status, older),
                                  projections_text(status), alerts_text(found)})
    if (!part.empty()) text += '\n' + part;
  return text;
}

// Takes relays out that were not seen lately; returns how many.
std::size_t take_older_relays(StoreStatus& status) {
  return std::erase_if(
      status.relays, [&](const RelayStatus& relay) { return !relay.alive && status.now - relay.last_seen > recently; });
}

void write_destination(JsonWriter& json, const DestinationStatus& destination, Time now) {
  json.begin_object().field("name", destination.name).field("paused", destination.paused);
  json.field("pending", destination.pending);
  json.field("oldest_pending", destination.oldest_pending).name("oldest_pending_age_seconds");
  if (destination.oldest_pending) {
    json.value(std::chrono::floor<std::chrono::seconds>(now - *destination.oldest_pending).count());
  } else {
    json.null();
  }
  json.name("undelivered").begin_object();
  for (const Standing each : all_standings) json.field(to_string(each), standing(destination, each));
  json.end_object().field("blocked_keys", destination.blocked_keys).field("attempts_most", destination.attempts_most);
  json.field("last_settled", destination.last_settled);
  json.field("settled_last_minute", destination.settled_last_minute);
  json.field("shards", destination.shards).field("shards_owned", destination.shards_owned).end_object();
}

void write_relay(JsonWriter& json, const RelayStatus& relay) {
  json.begin_object().field("id", relay.id).field("name", relay.name).field("alive", relay.alive);
  json.field("last_seen", relay.last_seen).field("shards_owned", relay.shards_owned);
  json.name("destinations").begin_list();
  for (const auto& name : relay.destinations) json.value(name);
  json.end_list().name("troubles").begin_list();
  for (const auto& trouble : relay.troubles)
    json.begin_object().field("destination", trouble.destination).field("text", trouble.text).end_object();
  json.end_list().name("rules").begin_object();
  for (const auto& [destination, match] : relay.rules) json.name(destination).raw(rules_json(match));
  json.end_object().end_object();
}

void write_projection(JsonWriter& json, const ProjectionProgress& projection) {
  json.begin_object().field("name", projection.name).field("shadow", projection.shadow);
  json.field("handled", projection.handled).field("behind", projection.behind);
  json.field("lag_ms", std::int64_t{projection.lag.count()}).field("changed_at", projection.changed_at).end_object();
}

std::string as_json(const StoreStatus& status, const std::vector<Alert>& found, std::size_t older) {
  JsonWriter json;
  json.begin_object().field("store", status.store).field("where", status.where);
  json.field("schema_version", status.schema_version).field("now", status.now);
  json.field("events", status.events);
  json.name("destinations").begin_list();
  for (const auto& destination : status.destinations) write_destination(json, destination, status.now);
  json.end_list().name("relays").begin_list();
  for (const auto& relay : status.relays) write_relay(json, relay);
  json.end_list().field("relays_not_shown", static_cast<std::int64_t>(older)).name("projections").begin_list();
  for (const auto& projection : status.projections) write_projection(json, projection);
  json.end_list().name("alerts").begin_list();
  for (const auto& alert : found)
    json.begin_object()
        .field("alert", alert.name)
        .field("destination", alert.destination.empty() ? std::nullopt : std::optional(alert.destination))
        .field("text", alert.text)
        .end_object();
  json.end_list().end_object();
  return json.take();
}

}  // namespace

ExitCode status(const Sources& sources, const StatusOptions& options) {
  const auto age_max = options.age_max.empty() ? std::nullopt : parse_duration(options.age_max);
  if (!options.age_max.empty() && !age_max)
    throw Error(Remedy::fix_input, fmt::format("--max-age '{}' is no duration; write 60s or 5m", options.age_max));
  const Settings settings = load_settings(sources);
  AlertLimits limits = settings.alerts;
  if (age_max) limits.age_max = *age_max;
  if (options.pending_max) limits.pending_max = options.pending_max;

  const auto store = open_store_quietly(settings);
  require_schema(*store);
  StoreStatus now = store->inspector()->status();
  const auto found = alerts(now, served_destinations(settings), limits);
  const std::size_t older = options.all ? 0 : take_older_relays(now);
  print(options.json ? as_json(now, found, older) : as_text(now, found, older));
  return options.check && !found.empty() ? ExitCode::unhealthy : ExitCode::ok;
}

}  // namespace waybill::app
