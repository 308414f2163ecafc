#pragma once

#include "waybill/event.h"

namespace waybill {

// Throws Error(fix_input) that names the field, if the event breaks a limit or could not be stored as it is.
void validate(const Event& event);
// Throws Error(fix_input) if not_before is further ahead of `now`, the store's clock, than an event may be scheduled.
// For stores without a table that checks it.
void validate_schedule(const Event& event, Time now);

// The headers as the JSON object they are stored as; empty if there are none.
std::string headers_json(const std::vector<Header>& headers);

}  // namespace waybill
