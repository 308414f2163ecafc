#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "waybill/error.h"

#include "app/commands.h"
#include "app/json_writer.h"
#include "app/session.h"
#include "app/terminal.h"
#include "model/routing.h"
#include "upkeep/alerts.h"

namespace waybill::app {
namespace {

using Level = Finding::Level;

std::string_view to_string(Level level) {
  constexpr std::array<std::string_view, 4> names{"ok", "note", "warning", "problem"};
  return names[static_cast<std::size_t>(level)];
}

Colour colour(Level level) {
  constexpr std::array colours{Colour::green, Colour::none, Colour::yellow, Colour::red};
  return colours[static_cast<std::size_t>(level)];
}

// Runs one examination; what it cannot do is a finding too.
template <typename Examine>
bool attempt(std::vector<Finding>& findings, std::string_view what, const Examine& examine) {
  try {
    examine();
    return true;
  } catch (const Error& error) {
    findings.push_back({Level::problem, std::string(what), error.what(), ""});
    return false;
  }
}

void examine_configuration(const config::Config& config, const Settings& settings, std::vector<Finding>& findings) {
  for (const auto& warning : config.warnings()) findings.push_back({Level::warning, "configuration", warning, ""});
  if (settings.destinations.empty()) {
    findings.push_back({Level::warning, "destinations", "none is configured: events stay where they are",
                        "add a [destinations.NAME] to the configuration"});
  } else {
    findings.push_back({Level::ok, "destinations", fmt::format("{} configured", settings.destinations.size()), ""});
  }
}

void examine_destinations(const Settings& settings, std::vector<Finding>& findings) {
  for (const auto& destination : settings.destinations) {
    for (Finding& finding : app::examine(destination)) {
      finding.what = fmt::format("{}: {}", destination.options.name, finding.what);
      findings.push_back(std::move(finding));
    }
  }
}

void examine_schema(Store& store, std::vector<Finding>& findings) {
  require_schema(store);
  if (const SchemaState state = store.schema()->state(); state.readable)
    findings.push_back({Level::ok, "schema", fmt::format("version {}", state.version), ""});
}

// A destination that nobody serves any more still holds the log back.
void examine_leftovers(const StoreStatus& status, const Settings& settings, std::vector<Finding>& findings) {
  for (const auto& known : status.destinations) {
    const auto& configured = settings.destinations;
    if (std::none_of(configured.begin(), configured.end(),
                     [&](const Destination& destination) { return destination.options.name == known.name; }))
      findings.push_back({Level::warning, "destinations",
                          fmt::format("'{}' is in the store but not in this configuration", known.name),
                          "if no other relay serves it, its events wait and are kept"});
  }
}

// A relay that was not reloaded skips and sends by the rules it was started with.
void examine_rules(const StoreStatus& status, const Settings& settings, std::vector<Finding>& findings) {
  for (const auto& destination : settings.destinations) {
    for (const auto& relay : status.relays) {
      const auto& served = relay.destinations;  // None, if it is leaving.
      const auto rules = relay.rules.find(destination.options.name);
      if (!relay.alive || rules == relay.rules.end()) continue;
      if (std::find(served.begin(), served.end(), destination.options.name) == served.end()) continue;
      if (canonical(rules->second) == canonical(destination.options.match)) continue;
      findings.push_back({Level::warning, fmt::format("{}: rules", destination.options.name),
                          fmt::format("relay {} sends it {}; this configuration says {}", relay.name,
                                      rules_text(rules->second), rules_text(destination.options.match)),
                          "reload or restart that relay"});
    }
  }
}

// Every alert of 'status', the troubles that live relays report among them, is a problem here too.
void examine_alerts(const StoreStatus& status, const Settings& settings, std::vector<Finding>& findings) {
  const auto found = alerts(status, served_destinations(settings), settings.alerts);
  if (found.empty()) findings.push_back({Level::ok, "alerts", "none", ""});
  for (const auto& alert : found)
    findings.push_back({Level::problem, fmt::format("alert {}", alert.name),
                        alert.destination.empty() ? alert.text : fmt::format("{}: {}", alert.destination, alert.text),
                        ""});
}

std::vector<Finding> examine(const config::Config& config, const Settings& settings) {
  std::vector<Finding> findings;
  examine_configuration(config, settings, findings);
  const auto store = open_store_quietly(settings);
  examine_destinations(settings, findings);
  if (!attempt(findings, "schema", [&] { examine_schema(*store, findings); })) return findings;
  attempt(findings, "store", [&] {
    const auto inspector = store->inspector();
    const auto found = inspector->examine();
    findings.insert(findings.end(), found.begin(), found.end());
    const StoreStatus status = inspector->status();
    examine_leftovers(status, settings, findings);
    examine_rules(status, settings, findings);
    examine_alerts(status, settings, findings);
  });
  return findings;
}

std::string as_text(const std::vector<Finding>& findings) {
  std::string text;
  for (const auto& finding : findings) {
    text += paint(colour(finding.level), fmt::format("{:<8}", to_string(finding.level)));
    text += fmt::format(" {}: {}\n", harmless(finding.what), harmless(finding.text));
    if (!finding.remedy.empty()) text += fmt::format("         -> {}\n", harmless(finding.remedy));
  }
  return text;
}

std::string as_json(const std::vector<Finding>& findings, bool healthy) {
  JsonWriter json;
  json.begin_object().field("healthy", healthy).name("findings").begin_list();
  for (const auto& finding : findings)
    json.begin_object()
        .field("level", to_string(finding.level))
        .field("what", finding.what)
        .field("text", finding.text)
        .field("remedy", finding.remedy)
        .end_object();
  json.end_list().end_object();
  return json.take();
}

}  // namespace

ExitCode doctor(const Sources& sources, const DoctorOptions& options) {
  config::Config config(sources);
  const Settings settings = read_settings(config);
  const auto findings = examine(config, settings);
  const bool healthy = std::none_of(findings.begin(), findings.end(),
                                    [](const Finding& finding) { return finding.level == Level::problem; });
  print(options.json ? as_json(findings, healthy) : as_text(findings));
  return healthy ? ExitCode::ok : ExitCode::unhealthy;
}

}  // namespace waybill::app
