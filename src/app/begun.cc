#include "app/begun.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/time_text.h"
#include "model/standing.h"

namespace waybill::app {
namespace {

UndeliveredFilter filter_of(const OperationView& view, const nlohmann::json& details) {
  UndeliveredFilter filter;
  filter.destination = view.destination;
  const auto text = [&](const char* name) { return details.value(name, std::string()); };
  for (const auto& name : details.value("standings", std::vector<std::string>()))
    if (const auto standing = parse_standing(name)) filter.standings.push_back(*standing);
  for (const auto& id : details.value("ids", std::vector<std::string>()))
    filter.ids.push_back(EventId::parse(id).value_or(EventId{}));
  std::sort(filter.ids.begin(), filter.ids.end());
  filter.topic = text("topic");
  filter.type = text("type");
  filter.tenant = text("tenant");
  filter.aggregate_type = text("aggregate_type");
  filter.aggregate_id = text("aggregate_id");
  filter.key = text("key");
  filter.error = text("error");
  filter.since = parse_rfc3339(text("since"));
  filter.until = parse_rfc3339(text("until"));
  return filter;
}

std::string names(std::vector<Standing> standings) {
  std::sort(standings.begin(), standings.end());
  std::vector<std::string_view> list;
  for (const Standing each : standings) list.push_back(to_string(each));
  return fmt::format("{}", fmt::join(list, ", "));
}

std::string aggregate(const UndeliveredFilter& filter) {
  const bool none = filter.aggregate_type.empty() && filter.aggregate_id.empty();
  return none ? "" : fmt::format("{}/{}", filter.aggregate_type, filter.aggregate_id);
}

std::string time(const std::optional<Time>& time) {
  return time ? to_rfc3339(*time) : "";
}

bool is_ago(const std::string& text) {
  return parse_duration(text).has_value();
}

}  // namespace

std::optional<Begun> find_begun(Operator& store, const EventId& id) {
  for (OperationView& view : store.history(std::numeric_limits<int>::max())) {
    if (view.id != id) continue;
    Begun begun{.view = std::move(view)};
    const auto details = nlohmann::json::parse(begun.view.details, nullptr, false);
    if (details.is_object()) begun.filter = filter_of(begun.view, details);
    return begun;
  }
  return std::nullopt;
}

std::vector<std::string> differences(const Begun& begun, const UndeliveredFilter& given,
                                     const SelectionOptions& options) {
  std::vector<std::string> found;
  const auto compare = [&](std::string_view flag, const std::string& was, const std::string& is) {
    if (was == is) return;
    const auto quoted = [](const std::string& text) { return text.empty() ? "not given" : fmt::format("'{}'", text); };
    found.push_back(fmt::format("{} was {}, is {}", flag, quoted(was), quoted(is)));
  };
  const UndeliveredFilter& was = begun.filter;
  if (!given.destination.empty()) compare("--destination", was.destination, given.destination);
  compare("--topic", was.topic, given.topic);
  compare("--type", was.type, given.type);
  compare("--tenant", was.tenant, given.tenant);
  compare("--aggregate", aggregate(was), aggregate(given));
  compare("--key", was.key, given.key);
  compare("--error", was.error, given.error);
  compare("--standing", names(was.standings), names(given.standings));
  if (!is_ago(options.since) || !was.since) compare("--since", time(was.since), time(given.since));
  // One that was not given was then set to the time of the first command.
  if (!options.until.empty() && !is_ago(options.until)) compare("--until", time(was.until), time(given.until));
  if (was.ids != given.ids) found.emplace_back("the ids are others");
  return found;
}

}  // namespace waybill::app
