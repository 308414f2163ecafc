#pragma once

#include <string_view>

#include "waybill/event.h"
#include "waybill/relay.h"

namespace waybill {

// Does `text` match `pattern`, in which '*' stands for any text, also none? Never slower than |pattern| *
// |text|.
bool matches(std::string_view pattern, std::string_view text);

bool matches(const Match& match, const EventView& event);

}  // namespace waybill
