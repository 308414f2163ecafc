#include "upkeep/alerts.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/time_text.h"
#include "model/count_text.h"

namespace waybill {
namespace {

bool served(const StoreStatus& status, const std::string& destination) {
  return std::any_of(status.relays.begin(), status.relays.end(), [&](const RelayStatus& relay) {
    const auto& names = relay.destinations;
    return relay.alive && std::find(names.begin(), names.end(), destination) != names.end();
  });
}

bool known(const StoreStatus& status, const std::string& destination) {
  return std::any_of(status.destinations.begin(), status.destinations.end(),
                     [&](const DestinationStatus& candidate) { return candidate.name == destination; });
}

Count standing(const DestinationStatus& destination, Standing standing) {
  const auto found = destination.undelivered.find(standing);
  return found == destination.undelivered.end() ? Count{} : found->second;
}

std::string things(const Count& count, std::string_view thing) {
  return fmt::format("{} {}{}", count_text(count), thing, count.value == 1 ? "" : "s");
}

std::string events(const Count& count) {
  return things(count, "event");
}

Alert alert_of(const RelayStatus& relay, const Trouble& trouble) {
  if (trouble.destination.empty()) return {"upkeep", "", fmt::format("relay {}: {}", relay.name, trouble.text)};
  return {"away", trouble.destination, fmt::format("relay {} waits for it: {}", relay.name, trouble.text)};
}

// The alerts of one destination.
class Examination {
 public:
  Examination(const StoreStatus& status, const DestinationStatus& destination, const AlertLimits& limits,
              std::vector<Alert>& found)
      : status_(status), destination_(destination), limits_(limits), found_(found) {}

  void workers() {
    const bool alive = served(status_, destination_.name);
    if (destination_.pending.value > 0 && !alive)
      add("no-relay", fmt::format("{} pending, and no relay is alive", events(destination_.pending)));
    if (alive && destination_.shards_owned < destination_.shards)
      add("unowned", fmt::format("{} of {} shards have no relay", destination_.shards - destination_.shards_owned,
                                 destination_.shards));
    if (limits_.paused && destination_.paused && destination_.pending.value > 0)
      add("paused", fmt::format("it is paused, with {} pending", events(destination_.pending)));
  }

  void progress() {
    over("backlog", destination_.pending, limits_.pending_max, "pending event", "");
    if (!destination_.oldest_pending) return;
    const auto age = status_.now - *destination_.oldest_pending;
    if (age > limits_.age_max) add("late", fmt::format("the oldest pending event has waited {}", age_text(age)));
    // Before the oldest was written there was nothing to settle.
    const Time moved =
        std::max(*destination_.oldest_pending, destination_.last_settled.value_or(*destination_.oldest_pending));
    if (!destination_.paused && status_.now - moved > limits_.lag_max)
      add("lag", fmt::format("nothing was settled for {} although events are pending", age_text(status_.now - moved)));
  }

  void failures() {
    over("retrying", standing(destination_, Standing::retrying), limits_.retrying_max, "event", " to be tried again");
    if (limits_.attempts_max && destination_.attempts_most > *limits_.attempts_max)
      add("attempts",
          fmt::format("an event has failed {} times and is tried again; see 'waybill events list --standing "
                      "retrying'",
                      destination_.attempts_most));
    over("blocked", destination_.blocked_keys, limits_.blocked_keys_max, "blocked key", "; see 'waybill blocked'");
    over("held", standing(destination_, Standing::held), limits_.held_max, "event",
         " waiting for a person; see 'waybill dead list'");
    over("dead", standing(destination_, Standing::dead), limits_.dead_max, "dead letter", "; see 'waybill dead list'");
  }

  void log() {
    if (limits_.retention && destination_.oldest_pending &&
        status_.now - *destination_.oldest_pending > *limits_.retention)
      add("held-back", fmt::format("it holds the log back: its oldest pending event is {} old, past the retention",
                                   age_text(status_.now - *destination_.oldest_pending)));
  }

 private:
  void add(std::string name, std::string text) {
    found_.push_back({std::move(name), destination_.name, std::move(text)});
  }

  void over(std::string name, const Count& count, const std::optional<std::int64_t>& most, std::string_view thing,
            std::string_view rest) {
    if (most && count.value > *most) add(std::move(name), things(count, thing) + std::string(rest));
  }

  const StoreStatus& status_;
  const DestinationStatus& destination_;
  const AlertLimits& limits_;
  std::vector<Alert>& found_;
};

}  // namespace

std::vector<Alert> alerts(const StoreStatus& status, const std::vector<std::string>& configured,
                          const AlertLimits& limits) {
  std::vector<Alert> found;
  for (const auto& name : configured)
    if (status.events.value > 0 && !known(status, name))
      found.push_back({"no-relay", name, "no relay has ever served it, and there are events"});
  for (const auto& destination : status.destinations) {
    Examination examination(status, destination, limits, found);
    examination.workers();
    examination.progress();
    examination.failures();
    examination.log();
  }
  for (const auto& relay : status.relays)
    for (const auto& trouble : relay.troubles)
      if (relay.alive) found.push_back(alert_of(relay, trouble));
  return found;
}

}  // namespace waybill
