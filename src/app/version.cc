#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/commands.h"
#include "app/json_writer.h"
#include "app/terminal.h"
#include "app/wiring.h"

namespace waybill::app {

ExitCode version(const VersionOptions& options) {
  const auto types = destination_types();
  if (!options.json) {
    print(fmt::format("waybill {}\ndestinations: {}\n", WAYBILL_VERSION, fmt::join(types, ", ")));
    return ExitCode::ok;
  }
  JsonWriter json;
  json.begin_object().field("version", WAYBILL_VERSION);
  json.name("destinations").begin_list();
  for (const auto& type : types) json.value(type);
  json.end_list().end_object();
  print(json.take());
  return ExitCode::ok;
}

}  // namespace waybill::app
