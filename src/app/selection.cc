#include "app/selection.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "waybill/error.h"

#include "app/aggregate_text.h"
#include "app/moment.h"
#include "base/suggest.h"
#include "model/standing.h"

namespace waybill::app {

EventId parse_event_id(const std::string& text) {
  const auto id = EventId::parse(text);
  if (!id) throw Error(Remedy::fix_input, fmt::format("'{}' is no event id; 'waybill events list' shows them", text));
  return *id;
}

std::vector<Standing> parse_standings(const std::vector<std::string>& names, const std::vector<Standing>& allowed) {
  std::vector<Standing> standings;
  for (const auto& name : names) {
    const auto standing = parse_standing(name);
    if (!standing || std::find(allowed.begin(), allowed.end(), *standing) == allowed.end()) {
      std::vector<std::string> known(allowed.size());
      std::transform(allowed.begin(), allowed.end(), known.begin(),
                     [](Standing each) { return std::string(to_string(each)); });
      throw Error(Remedy::fix_input, fmt::format("--standing '{}' is none{}", name, suggestion(name, known)));
    }
    standings.push_back(*standing);
  }
  return standings;
}

UndeliveredFilter filter_of(const SelectionOptions& options) {
  UndeliveredFilter filter;
  for (const auto& id : options.ids) filter.ids.push_back(parse_event_id(id));
  std::sort(filter.ids.begin(), filter.ids.end());
  filter.ids.erase(std::unique(filter.ids.begin(), filter.ids.end()), filter.ids.end());
  filter.standings = parse_standings(options.standings,
                                     {Standing::dead, Standing::held, Standing::expired, Standing::expired_unknown});
  filter.destination = options.destination;
  filter.topic = options.topic;
  filter.type = options.type;
  filter.tenant = options.tenant;
  filter.key = options.key;
  // Nobody knows an error's whole text by heart.
  filter.error = options.error.empty() || options.error.find('*') != std::string::npos
                     ? options.error
                     : fmt::format("*{}*", options.error);
  if (!options.aggregate.empty()) {
    const Aggregate aggregate = parse_aggregate(options.aggregate);
    filter.aggregate_type = aggregate.type;
    filter.aggregate_id = aggregate.id;
  }
  const Time now = system_clock().now();
  if (!options.since.empty()) filter.since = parse_moment("--since", options.since, now, Direction::past);
  if (!options.until.empty()) filter.until = parse_moment("--until", options.until, now, Direction::past);
  return filter;
}

bool is_empty(const SelectionOptions& options) {
  return options.ids.empty() && options.standings.empty() && options.destination.empty() && options.topic.empty() &&
         options.type.empty() && options.tenant.empty() && options.aggregate.empty() && options.key.empty() &&
         options.error.empty() && options.since.empty() && options.until.empty();
}

std::vector<std::string> known_destinations(const StoreStatus& status) {
  std::vector<std::string> names;
  for (const auto& destination : status.destinations) names.push_back(destination.name);
  return names;
}

void require_destination(const StoreStatus& status, const std::string& name) {
  const auto known = known_destinations(status);
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  throw Error(Remedy::fix_input,
              fmt::format("the store knows no destination '{}'{}", name,
                          known.empty() ? "; it has none before a relay has run" : suggestion(name, known)));
}

}  // namespace waybill::app
