#include "upkeep/alerts.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/time_text.h"
#include "model/count_text.h"
#include "model/routing.h"

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

// Everything that only a relay can move on, by state: "2 events pending, 1 retrying"; empty if there is nothing.
std::string waiting_text(const DestinationStatus& destination) {
  std::string text;
  const auto add = [&](const Count& count, std::string_view state) {
    if (count.value == 0) return;
    text +=
        text.empty() ? fmt::format("{} {}", events(count), state) : fmt::format(", {} {}", count_text(count), state);
  };
  add(destination.pending, "pending");
  for (const auto& [standing, count] : destination.undelivered)
    if (waits(standing)) add(count, to_string(standing));
  return text;
}

// At most so many bytes of it, by whole characters.
std::string shortened(std::string text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xC0U) == 0x80U) --bytes_max;
  return text.substr(0, bytes_max) + "…";
}

// Which rules live relays serve the destination by, if not all by the same: an event is sent or skipped by those of the
// relay that happens to come to it.
std::string disagreement(const StoreStatus& status, const std::string& destination) {
  constexpr std::size_t rules_bytes_max = 200;
  std::vector<std::pair<Match, std::string>> found;  // rules, and who has them
  for (const RelayStatus& relay : status.relays) {
    const auto& names = relay.destinations;
    if (!relay.alive || std::find(names.begin(), names.end(), destination) == names.end()) continue;
    const auto rules = relay.rules.find(destination);
    const Match match = rules == relay.rules.end() ? Match{} : canonical(rules->second);
    const auto same = std::find_if(found.begin(), found.end(), [&](const auto& each) { return each.first == match; });
    if (same == found.end()) {
      found.emplace_back(match, "relay " + relay.name);
    } else {
      same->second += ", " + relay.name;
    }
  }
  if (found.size() < 2) return {};
  std::string text = "live relays disagree about which events it gets: ";
  for (const auto& [match, relays] : found)
    text += fmt::format("{} by {}; ", relays, shortened(rules_text(match), rules_bytes_max));
  return text + "reload those with the old configuration, then rewind if events were skipped that should not have been";
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
    const std::string waiting = waiting_text(destination_);
    if (!waiting.empty() && !alive) add("no-relay", fmt::format("{}, and no relay is alive", waiting));
    if (alive && destination_.shards_owned < destination_.shards)
      add("unowned", fmt::format("{} of {} shards have no relay", destination_.shards - destination_.shards_owned,
                                 destination_.shards));
    if (const std::string text = disagreement(status_, destination_.name); !text.empty()) add("rules", text);
    if (limits_.paused && destination_.paused && !waiting.empty())
      add("paused", fmt::format("it is paused, with {}", waiting));
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
    over("expired", standing(destination_, Standing::expired), limits_.expired_max, "event",
         " expired before delivery; see 'waybill events list --standing expired'");
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
