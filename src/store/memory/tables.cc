#include "store/memory/tables.h"

#include <algorithm>

#include "model/routing.h"

namespace waybill {

bool waits(Standing standing) {
  return standing == Standing::retrying || standing == Standing::blocked || standing == Standing::scheduled;
}

bool like(const std::string& pattern, std::string_view text) {
  return pattern.empty() || matches(pattern, text);
}

bool matches(const UndeliveredFilter& filter, const std::string& destination, const UndeliveredRow& row,
             const EventView& event) {
  const auto among = [](const auto& list, const auto& value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  };
  return (filter.destination.empty() || filter.destination == destination) &&
         among(filter.standings, row.row.standing) && among(filter.ids, event.id) && like(filter.topic, event.topic) &&
         like(filter.type, event.type) && like(filter.tenant, event.tenant) &&
         like(filter.aggregate_type, event.aggregate_type) && like(filter.aggregate_id, event.aggregate_id) &&
         like(filter.key, ordering_key(event)) && like(filter.error, row.row.error) &&
         (!filter.since || row.since >= *filter.since) && (!filter.until || row.since < *filter.until) &&
         (!filter.before_seq || event.seq < *filter.before_seq);
}

}  // namespace waybill
