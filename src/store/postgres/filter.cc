#include "store/postgres/filter.h"

#include "base/time_text.h"

namespace waybill {

std::optional<std::string> parameter(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

std::optional<std::string> parameter(const std::optional<Time>& time) {
  return time ? std::optional(to_rfc3339(*time)) : std::nullopt;
}

std::optional<std::string> parameter(const std::optional<std::int64_t>& number) {
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

void append_filter(PgParameters& parameters, const UndeliveredFilter& filter) {
  std::vector<std::string> standings;
  for (const Standing standing : filter.standings) standings.emplace_back(to_string(standing));
  std::vector<std::string> ids;
  for (const EventId& id : filter.ids) ids.push_back(id.to_string());
  parameters.push_back(standings.empty() ? std::nullopt : std::optional(pg_array(standings)));
  parameters.push_back(ids.empty() ? std::nullopt : std::optional(pg_array(ids)));
  for (const std::string* text : {&filter.topic, &filter.type, &filter.tenant, &filter.aggregate_type,
                                  &filter.aggregate_id, &filter.key, &filter.error})
    parameters.push_back(parameter(*text));
  parameters.push_back(parameter(filter.since));
  parameters.push_back(parameter(filter.until));
  parameters.push_back(parameter(filter.before_seq));
}

}  // namespace waybill
