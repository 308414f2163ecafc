#pragma once

#include <string_view>

#include "waybill/event.h"

namespace waybill::app {

// The event that one line of JSON spells: an object whose members are named as the columns of the event
// table, with the payload as it stands there, byte for byte, or as `payload_base64`. Throws Error(fix_input)
// that names the member.
Event parse_event_line(std::string_view line);

}  // namespace waybill::app
