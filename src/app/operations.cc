#include <fmt/format.h>

#include "app/commands.h"
#include "app/json_writer.h"
#include "app/session.h"
#include "app/terminal.h"
#include "base/time_text.h"

namespace waybill::app {

ExitCode operations(const Sources& sources, const OperationsOptions& options) {
  const auto history = ready_store(load_settings(sources))->operate()->history(options.limit);
  Table table({"AT", "WHAT", {"DESTINATION", Fit::cut}, "EVENTS", {"BY", Fit::cut}});
  JsonWriter json;
  json.begin_object().name("operations").begin_list();
  for (const auto& each : history) {
    table.add(
        {to_rfc3339(each.at).substr(0, 19) + 'Z', each.kind, each.destination, fmt::format("{}", each.events), each.by},
        each.id.to_string() + (each.details.empty() || each.details == "{}" ? "" : " " + each.details));
    json.begin_object().field("id", each.id.to_string()).field("kind", each.kind).field("by", each.by);
    json.field("destination", each.destination).field("details", each.details).field("events", each.events);
    json.field("at", each.at).end_object();
  }
  json.end_list().end_object();
  print(options.json ? json.take() : table.text());
  return ExitCode::ok;
}

}  // namespace waybill::app
