#pragma once

#include <string>

#include "waybill/event.h"

namespace waybill {

// Appends the event as one JSON object on one line, without a line end: every field that is set, under its
// column's name. A JSON payload is embedded as it is (its line breaks, which JSON allows only between tokens,
// become spaces); other bytes come as "payload_base64".
void append_event_json(std::string& out, const EventView& event);

}  // namespace waybill
