#pragma once

#include <string_view>

#include "waybill/event.h"

namespace waybill {

// The event as it would rest in the log if it was written at `now`, but without a place there (seq, shard). It points
// into `event` and `headers`, which is headers_json() of the event's. REQUIRES: the event is valid and has an id.
EventView view_of(const Event& event, std::string_view headers, Time now);

}  // namespace waybill
