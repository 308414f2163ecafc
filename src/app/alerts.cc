#include "app/alerts.h"

#include <algorithm>

#include <fmt/format.h>

#include "app/moment.h"

namespace waybill::app {
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

}  // namespace

std::vector<Alert> alerts(const StoreStatus& status, const std::vector<std::string>& configured,
                          const AlertLimits& limits) {
  std::vector<Alert> found;
  for (const auto& name : configured)
    if (status.events.value > 0 && !known(status, name))
      found.push_back({"no-relay", name, "no relay has ever served it, and there are events"});
  for (const auto& destination : status.destinations) {
    const auto add = [&](std::string name, std::string text) {
      found.push_back({std::move(name), destination.name, std::move(text)});
    };
    const auto pending = destination.pending.value;
    if (destination.oldest_pending && status.now - *destination.oldest_pending > limits.age_max)
      add("late",
          fmt::format("the oldest pending event has waited {}", age_text(status.now - *destination.oldest_pending)));
    if (limits.pending_max && pending > *limits.pending_max)
      add("backlog", fmt::format("{} events are pending", count_text(destination.pending)));
    const bool alive = served(status, destination.name);
    if (pending > 0 && !alive)
      add("no-relay", fmt::format("{} events are pending and no relay is alive", count_text(destination.pending)));
    if (alive && destination.shards_owned < destination.shards)
      add("unowned", fmt::format("{} of {} shards have no relay", destination.shards - destination.shards_owned,
                                 destination.shards));
  }
  for (const auto& relay : status.relays)
    for (const auto& trouble : relay.troubles)
      if (relay.alive)
        found.push_back(
            {"away", trouble.destination, fmt::format("relay {} waits for it: {}", relay.name, trouble.text)});
  return found;
}

}  // namespace waybill::app
