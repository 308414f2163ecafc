#include <algorithm>

#include <nlohmann/json.hpp>

#include "waybill/testing.h"

namespace waybill {
namespace {

using nlohmann::json;

json read(const std::string& text) {
  return json::parse(text, nullptr, false);
}

std::string shown(const std::string& text) {
  return text.empty() ? "none" : text;
}
std::string shown(const std::optional<std::string>& text) {
  return text ? *text : "none";
}
template <typename Number>
std::string shown(const std::optional<Number>& number) {
  return number ? std::to_string(*number) : "none";
}
std::string shown(const std::optional<Time>& time) {
  return time ? std::to_string(time->time_since_epoch().count()) + " us since 1970" : "none";
}
std::string shown(const std::optional<EventId>& id) {
  return id ? id->to_string() : "none";
}

bool is_set(const std::string& text) {
  return !text.empty();
}
template <typename T>
bool is_set(const std::optional<T>& value) {
  return value.has_value();
}

// Calls `visit(name, member)` for everything that is compared as it stands.
template <typename Visit>
void for_each_plain_member(const Visit& visit) {
  visit("tenant", &Event::tenant);
  visit("topic", &Event::topic);
  visit("type", &Event::type);
  visit("version", &Event::version);
  visit("key", &Event::key);
  visit("payload_bytes", &Event::payload_bytes);
  visit("content_type", &Event::content_type);
  visit("routing_key", &Event::routing_key);
  visit("schema_id", &Event::schema_id);
  visit("schema_version", &Event::schema_version);
  visit("occurred_at", &Event::occurred_at);
  visit("not_before", &Event::not_before);
  visit("expires_at", &Event::expires_at);
  visit("attempts_max", &Event::attempts_max);
  visit("dedup_key", &Event::dedup_key);
  visit("id", &Event::id);
}

class Differences {
 public:
  template <typename Value>
  void compare(std::string_view name, const Value& found, const Value& wanted) {
    if (is_set(wanted) && found != wanted) add(name, shown(found), shown(wanted));
  }
  void add(std::string_view name, const std::string& found, const std::string& wanted) {
    if (!text_.empty()) text_ += "; ";
    text_ += std::string(name) + " is " + found + ", not " + wanted;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void compare_metadata(Differences& differences, const Event& event, const Event& wanted) {
  if (wanted.metadata.empty()) return;
  const json found = read(event.metadata.empty() ? "{}" : event.metadata);
  const json members = read(wanted.metadata);
  bool same = members.is_object() && found.is_object();
  if (same)
    for (const auto& [name, value] : members.items()) same = same && found.contains(name) && found[name] == value;
  if (!same) differences.add("metadata", shown(event.metadata), wanted.metadata);
}

void compare_headers(Differences& differences, const Event& event, const Event& wanted) {
  for (const Header& header : wanted.headers) {
    const auto found = std::find_if(event.headers.begin(), event.headers.end(),
                                    [&](const Header& other) { return other.name == header.name; });
    const bool there = found != event.headers.end();
    if (!there || found->value != header.value)
      differences.add("header " + header.name, there ? found->value : "none", header.value);
  }
}

}  // namespace

std::string difference(const Event& event, const Event& wanted) {
  Differences differences;
  for_each_plain_member(
      [&](std::string_view name, auto member) { differences.compare(name, event.*member, wanted.*member); });
  differences.compare("aggregate type", event.aggregate.type, wanted.aggregate.type);
  differences.compare("aggregate id", event.aggregate.id, wanted.aggregate.id);
  const bool same_json = event.payload && wanted.payload && read(*event.payload) == read(*wanted.payload) &&
                         !read(*event.payload).is_discarded();
  if (!same_json) differences.compare("payload", event.payload, wanted.payload);
  compare_metadata(differences, event, wanted);
  compare_headers(differences, event, wanted);
  return differences.text();
}

std::string differences(const std::vector<Event>& events, const std::vector<Event>& wanted) {
  std::string text;
  for (std::size_t i = 0; i < std::max(events.size(), wanted.size()); ++i) {
    const std::string which = "event " + std::to_string(i + 1);
    if (i >= wanted.size()) {
      text += which + " was not wanted: " + to_text(events[i]) + "\n";
    } else if (i >= events.size()) {
      text += which + " is missing: " + to_text(wanted[i]) + "\n";
    } else if (const std::string different = difference(events[i], wanted[i]); !different.empty()) {
      text += which + ": " + different + "\n";
    }
  }
  return text;
}

std::string to_text(const Event& event) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value) {
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + value;
  };
  for_each_plain_member([&](std::string_view name, auto member) {
    if (is_set(event.*member) && !(name == "tenant" && event.tenant == "default")) add(name, shown(event.*member));
  });
  if (!event.aggregate.type.empty()) add("aggregate", event.aggregate.type + "/" + event.aggregate.id);
  if (event.payload) add("payload", *event.payload);
  if (!event.metadata.empty()) add("metadata", event.metadata);
  for (const Header& header : event.headers) add("header " + header.name, header.value);
  return text;
}

}  // namespace waybill
