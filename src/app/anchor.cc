#include <fmt/format.h>

#include "app/commands.h"
#include "app/dialogue.h"
#include "app/json_writer.h"
#include "app/session.h"
#include "app/terminal.h"

namespace waybill::app {
namespace {

std::string as_json(const Operation& operation, const Anchored& anchored, bool dry) {
  JsonWriter json;
  json.begin_object().field("kind", "anchor").name("operation");
  if (dry || !anchored.needed) {
    json.null();
  } else {
    json.value(operation.id.to_string());
  }
  json.field("dry_run", dry).field("needed", anchored.needed).field("found", anchored.found);
  json.field("to_be_sent", anchored.to_be_sent).end_object();
  return json.take();
}

}  // namespace

ExitCode anchor(const Sources& sources, const ActOptions& options) {
  const auto store = ready_store(load_settings(sources));
  const auto upkeep = store->upkeep();
  const Operation operation{.id = EventId::make(), .by = operator_name(sources.environment, options.by)};
  const Anchored preview = upkeep->anchor(operation, true);
  if (!preview.needed || options.dry_run) {
    const std::string text = preview.needed
                                 ? fmt::format("{}; would pause every destination, {} are not known to have arrived\n",
                                               harmless(preview.found), counted(preview.to_be_sent, "event"))
                                 : fmt::format("{} is the store that relays know; nothing to do\n", store->describe());
    print(options.json ? as_json(operation, preview, options.dry_run) : text);
    return ExitCode::ok;
  }
  note(preview.found);
  if (!confirm(fmt::format("make {} the store that relays trust, with every destination paused and {} to be sent",
                           store->describe(), counted(preview.to_be_sent, "event")),
               options.yes))
    return ExitCode::failure;
  const Anchored anchored = upkeep->anchor(operation, false);
  if (options.json) print(as_json(operation, anchored, false));
  note("relays trust this store now; its destinations are paused: 'waybill resume' each, when it is the right one");
  return ExitCode::ok;
}

}  // namespace waybill::app
