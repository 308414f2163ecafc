#pragma once

#include <optional>
#include <string>

#include "waybill/store.h"

#include "app/json_writer.h"

namespace waybill::app {

// An event as JSON. Payloads may hold what not everyone should see: they are there when asked for.
std::string event_json(EventView event, bool with_payload);

// How an undelivered event stands, and what it is sent with instead of what it says, as members of the object that
// `json` is in.
void write_standing(JsonWriter& json, const UndeliveredView& view, bool with_payload);

// Everything the store knows about an event.
struct Story {
  EventStory told{};
  UndeliveredList undelivered{};  // Where it is so.
};
// Nothing if the store does not know the event.
std::optional<Story> find_story(Inspector& inspector, const EventId& id);

std::string story_text(const Story& story, bool with_payload);
std::string story_json(const Story& story, bool with_payload);

}  // namespace waybill::app
