#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/commands.h"
#include "app/json_writer.h"
#include "app/terminal.h"
#include "app/wiring.h"

namespace waybill::app {

ExitCode version(const VersionOptions& options) {
  const auto types = built_in_destination_types();
  if (!options.json) {
    std::string text = fmt::format("waybill {}\n", WAYBILL_VERSION);
    for (const auto& [store, schema] : schema_versions()) text += fmt::format("store: {}, schema {}\n", store, schema);
    print(text + fmt::format("destinations: {}\n", fmt::join(types, ", ")));
    return ExitCode::ok;
  }
  JsonWriter json;
  json.begin_object().field("version", WAYBILL_VERSION);
  json.name("stores").begin_list();
  for (const auto& [store, schema] : schema_versions())
    json.begin_object().field("store", store).field("schema_version", schema).end_object();
  json.end_list().name("destinations").begin_list();
  for (const auto& type : types) json.value(type);
  json.end_list().end_object();
  print(json.take());
  return ExitCode::ok;
}

}  // namespace waybill::app
