#include "app/undelivered_list.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "app/story.h"
#include "app/terminal.h"
#include "base/time_text.h"

namespace waybill::app {
namespace {

struct Page {
  std::vector<UndeliveredView> views{};
  std::vector<UndeliveredList> memory{};  // What the views point into.
  std::optional<std::int64_t> next_before{};
};

// More destinations than anybody has.
constexpr int destinations_max = 10'000;

Page read_page(Inspector& inspector, const UndeliveredFilter& filter) {
  Page page;
  page.memory.push_back(inspector.undelivered(filter));
  page.views = page.memory.back().events;
  if (static_cast<int>(page.views.size()) < filter.limit) return page;
  // A full page may have another behind it, which begins below this event.
  const EventView last = page.views.back().event;
  page.next_before = last.seq;
  if (!filter.destination.empty()) return page;
  UndeliveredFilter rest = filter;
  rest.ids = {last.id};
  rest.limit = destinations_max;
  page.memory.push_back(inspector.undelivered(rest));
  for (const auto& view : page.memory.back().events)
    if (std::none_of(page.views.begin(), page.views.end(), [&](const UndeliveredView& shown) {
          return shown.event.seq == view.event.seq && shown.destination == view.destination;
        }))
      page.views.push_back(view);
  return page;
}

// What it is about, and what went wrong.
std::string detail_of(const UndeliveredView& view) {
  const std::string key = ordering_key(view.event);
  return fmt::format("{}{}{}{}{}{}", view.event.topic, key.empty() ? "" : " of ", key,
                     view.edit.empty() ? "" : " (edited)", view.row.error.empty() ? "" : ": ", view.row.error);
}

std::string as_text(const Page& page) {
  const Time now = system_clock().now();
  Table table({"ID", {"DESTINATION", Fit::cut}, "STANDING", "ATTEMPTS", "SINCE"});
  for (const auto& view : page.views)
    table.add({view.event.id.to_string(), view.destination, std::string(to_string(view.row.standing)),
               fmt::format("{}", view.row.attempts), age_text(now - view.since)},
              detail_of(view));
  return table.text();
}

std::string item_json(const UndeliveredView& view, bool with_payload) {
  JsonWriter json;
  json.begin_object().field("destination", view.destination);
  write_standing(json, view, with_payload);
  json.name("event").raw(event_json(view.event, with_payload)).end_object();
  return json.take();
}

std::string as_json(const Page& page, const ListStyle& style) {
  JsonWriter json;
  json.begin_object().name("events").begin_list();
  for (const auto& view : page.views) {
    std::string item = item_json(view, style.payload);
    item.pop_back();  // its line end
    json.raw(item);
  }
  json.end_list().field("next_before", page.next_before).end_object();
  return json.take();
}

std::string as_json_lines(const Page& page, const ListStyle& style) {
  std::string lines;
  for (const auto& view : page.views) lines += item_json(view, style.payload);
  return lines;
}

}  // namespace

void print_undelivered(Inspector& inspector, UndeliveredFilter filter, const ListStyle& style) {
  filter.payloads = style.payload;
  const Page page = read_page(inspector, filter);
  print(style.json ? as_json(page, style) : style.json_lines ? as_json_lines(page, style) : as_text(page));
  if (page.next_before && !style.json && !style.json_lines)
    note(fmt::format("there may be more: --before {}", *page.next_before));
}

}  // namespace waybill::app
