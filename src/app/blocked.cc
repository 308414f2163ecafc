#include <fmt/format.h>

#include "app/commands.h"
#include "app/json_writer.h"
#include "app/selection.h"
#include "app/session.h"
#include "app/terminal.h"
#include "base/time_text.h"
#include "model/count_text.h"

namespace waybill::app {
namespace {

std::string due_text(const BlockedKeyView& key, Time now) {
  if (!key.due) return "-";
  return *key.due <= now ? "now" : fmt::format("in {}", age_text(*key.due - now));
}

std::string as_text(const std::vector<BlockedKeyView>& keys, Time now) {
  Table table(
      {{"DESTINATION", Fit::cut}, {"TENANT", Fit::cut}, {"KEY", Fit::cut}, "EVENTS", "STANDING", "SINCE", "NEXT TRY"});
  for (const auto& key : keys)
    table.add({key.destination, key.tenant, key.key, count_text(key.events), std::string(to_string(key.standing)),
               age_text(now - key.since), due_text(key, now)},
              fmt::format("first {}{}{}", key.first.to_string(), key.error.empty() ? "" : ": ", key.error));
  return table.text();
}

std::string as_json(const std::vector<BlockedKeyView>& keys) {
  JsonWriter json;
  json.begin_object().name("keys").begin_list();
  for (const auto& key : keys)
    json.begin_object()
        .field("destination", key.destination)
        .field("tenant", key.tenant)
        .field("key", key.key)
        .field("events", key.events)
        .field("first", key.first.to_string())
        .field("standing", to_string(key.standing))
        .field("error", key.error)
        .field("since", key.since)
        .field("due", key.due)
        .end_object();
  json.end_list().end_object();
  return json.take();
}

}  // namespace

ExitCode blocked(const Sources& sources, const BlockedOptions& options) {
  const auto store = ready_store(load_settings(sources));
  const auto inspector = store->inspector();
  const StoreStatus status = inspector->status();
  if (!options.destination.empty()) require_destination(status, options.destination);
  const auto keys = inspector->blocked_keys(options.destination, options.limit);
  print(options.json ? as_json(keys) : as_text(keys, status.now));
  if (!options.json && static_cast<int>(keys.size()) == options.limit)
    note(fmt::format("there may be more than {}; see --limit", options.limit));
  return ExitCode::ok;
}

}  // namespace waybill::app
