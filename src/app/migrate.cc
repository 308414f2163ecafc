#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/commands.h"
#include "app/session.h"
#include "app/terminal.h"

namespace waybill::app {

ExitCode migrate(const Sources& sources, const MigrateOptions& options) {
  const Settings settings = load_settings(sources);
  const auto store = open_store_quietly(settings);
  const auto schema = store->schema();
  if (options.print) {
    print(schema->print());
    return ExitCode::ok;
  }
  if (const SchemaState state = schema->state(); state.version > state.newest_known) {
    require_schema(*store);
    note(
        fmt::format("{}: the tables have version {}, newer than this program's {}, which can still use them; nothing "
                    "was changed",
                    store->describe(), state.version, state.newest_known));
    return ExitCode::ok;
  }
  const auto applied = schema->migrate();
  const int now = schema->state().version;
  note(applied.empty() ? fmt::format("{}: the tables have version {}; nothing to do", store->describe(), now)
                       : fmt::format("{}: the tables have version {} (applied {})", store->describe(), now,
                                     fmt::join(applied, ", ")));
  return ExitCode::ok;
}

}  // namespace waybill::app
