#pragma once

#include <string>
#include <string_view>

#include "waybill/event.h"
#include "waybill/relay.h"

namespace waybill {

// Does `text` match `pattern`, in which '*' stands for any text, also none? Never slower than |pattern| *
// |text|.
bool matches(std::string_view pattern, std::string_view text);

bool matches(const Match& match, const EventView& event);

// Why it does not, for people: "topic 'room.opened' is none of 'patient.*'"; empty if it does.
std::string mismatch(const Match& match, const EventView& event);

}  // namespace waybill
