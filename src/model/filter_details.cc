#include "model/filter_details.h"

#include <fmt/format.h>

#include "base/json_text.h"
#include "base/time_text.h"

namespace waybill {
namespace {

class Members {
 public:
  void add(std::string_view name, std::string_view json) {
    if (text_.size() > 1) text_ += ',';
    text_ += fmt::format(R"("{}":{})", name, json);
  }
  void add_text(std::string_view name, std::string_view value) {
    std::string json;
    append_json_string(json, value);
    if (!value.empty()) add(name, json);
  }
  template <typename List, typename Text>
  void add_list(std::string_view name, const List& list, const Text& text) {
    std::string json;
    for (const auto& each : list) {
      json += json.empty() ? '[' : ',';
      append_json_string(json, text(each));
    }
    if (!json.empty()) add(name, json + ']');
  }
  std::string take() { return text_ + '}'; }

 private:
  std::string text_ = "{";
};

}  // namespace

std::string filter_details(const UndeliveredFilter& filter) {
  Members members;
  members.add_list("standings", filter.standings, [](Standing each) { return to_string(each); });
  members.add_list("ids", filter.ids, [](const EventId& each) { return each.to_string(); });
  members.add_text("topic", filter.topic);
  members.add_text("type", filter.type);
  members.add_text("tenant", filter.tenant);
  members.add_text("aggregate_type", filter.aggregate_type);
  members.add_text("aggregate_id", filter.aggregate_id);
  members.add_text("key", filter.key);
  members.add_text("error", filter.error);
  if (filter.since) members.add_text("since", to_rfc3339(*filter.since));
  if (filter.until) members.add_text("until", to_rfc3339(*filter.until));
  return members.take();
}

}  // namespace waybill
