#include "app/session.h"

#include <algorithm>

#include <fmt/format.h>

#include "waybill/error.h"

#include "app/terminal.h"

namespace waybill::app {

Settings load_settings(const config::Sources& sources) {
  config::Config config(sources);
  Settings settings = read_settings(config);
  for (const auto& warning : config.warnings()) note("warning: " + warning);
  return settings;
}

std::vector<Finding> examine(const Destination& destination) {
  if (!destination.sink.examine) return {};
  return destination.sink.examine(system_clock().steady() + std::chrono::seconds(5));
}

std::unique_ptr<Store> open_store_quietly(const Settings& settings) {
  return open_store(settings, stderr_log(std::max(settings.log_level, LogLevel::warning), settings.log_format));
}

std::unique_ptr<Store> ready_store(const Settings& settings) {
  auto store = open_store_quietly(settings);
  require_schema(*store);
  return store;
}

void require_schema(Store& store) {
  const SchemaState state = store.schema()->state();
  if (!state.readable) return;  // The work itself will be refused, with the role that it takes.
  if (state.version == 0)
    throw Error(Remedy::fix_config,
                fmt::format("{}: the tables are not there; run 'waybill migrate'", store.describe()));
  if (state.oldest_program > state.newest_known)
    throw Error(Remedy::fix_config,
                fmt::format("{}: the tables have version {}, this program knows {}; install a newer waybill",
                            store.describe(), state.version, state.newest_known));
  if (state.version < state.newest_known)
    throw Error(Remedy::fix_config,
                fmt::format("{}: the tables have version {}, this program needs {}; run 'waybill migrate'",
                            store.describe(), state.version, state.newest_known));
}

}  // namespace waybill::app
