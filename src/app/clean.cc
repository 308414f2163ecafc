#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "waybill/error.h"
#include "waybill/progress.h"

#include "app/commands.h"
#include "app/dialogue.h"
#include "app/json_writer.h"
#include "app/session.h"
#include "app/signals.h"
#include "app/terminal.h"

namespace waybill::app {
namespace {

using namespace std::chrono_literals;

// Calls in a row that find nothing to remove although there is more: somebody else is at it, or in the way.
constexpr int idle_calls_max = 10;
constexpr auto idle_wait = 200ms;

void add(Count& sum, const Count& part) {
  sum.value += part.value;
  sum.exact = sum.exact && part.exact;
}

// Cleans until nothing is left to do, a signal comes, or nothing moves; `more` says whether something is left.
Cleaned clean_all(Upkeep& upkeep, const CleanOptions& options, const Signals& signals) {
  Cleaned sum;
  ProgressBar progress(!is_quiet());
  for (int idle = 0; idle < idle_calls_max && signals.received() == 0;) {
    const Cleaned part = upkeep.clean(options);
    add(sum.events, part.events);
    add(sum.dead, part.dead);
    add(sum.dedup, part.dedup);
    add(sum.inbox, part.inbox);
    add(sum.idempotency, part.idempotency);
    sum.held_back = part.held_back;
    sum.more = part.more;
    progress.show(sum.removed());
    if (!part.more || options.dry) return sum;
    idle = part.removed() == 0 ? idle + 1 : 0;
    if (idle > 0) std::this_thread::sleep_for(idle_wait);
  }
  return sum;
}

std::string as_text(const Cleaned& cleaned, bool dry) {
  // A dry call looks at the part that one call would do.
  const std::string_view more = dry && cleaned.more ? " and more" : "";
  std::string text =
      fmt::format("{} {}, {}, {}, {}, {}{}\n", dry ? "would remove" : "removed", counted(cleaned.events, "event"),
                  counted(cleaned.dead, "dead letter"), counted(cleaned.dedup, "dedup key"),
                  counted(cleaned.inbox, "inbox message"), counted(cleaned.idempotency, "idempotency key"), more);
  for (const auto& who : cleaned.held_back) text += fmt::format("held back: {}\n", harmless(who));
  return text;
}

std::string as_json(const Cleaned& cleaned, bool dry) {
  JsonWriter json;
  json.begin_object().field("dry_run", dry).field("events", cleaned.events).field("dead", cleaned.dead);
  json.field("dedup", cleaned.dedup).field("inbox", cleaned.inbox).field("idempotency", cleaned.idempotency);
  json.name("held_back").begin_list();
  for (const auto& who : cleaned.held_back) json.value(who);
  json.end_list().field("more", cleaned.more).end_object();
  return json.take();
}

}  // namespace

int clean(const Sources& sources, const CleanCommandOptions& options) {
  const Settings settings = load_settings(sources);
  const Signals signals;
  const auto store = ready_store(settings);
  CleanOptions what = settings.caretaker.clean;
  what.dry = options.dry_run;
  what.stop = signals.stop_token();
  const Cleaned cleaned = clean_all(*store->upkeep(), what, signals);
  print(options.json ? as_json(cleaned, options.dry_run) : as_text(cleaned, options.dry_run));
  if (signals.received() != 0) return 128 + signals.received();
  if (options.dry_run || !cleaned.more) return static_cast<int>(ExitCode::ok);
  say("there is more to be cleaned, but something is in the way: another relay that cleans, or a long transaction; "
      "try again later");
  return static_cast<int>(ExitCode::unhealthy);
}

}  // namespace waybill::app
