#pragma once

#include "waybill/event.h"

#include "app/commands.h"

namespace waybill::app {

// The event that the flags describe. Throws Error(fix_input) that names the flag.
Event event_of(const EventFlags& flags);

}  // namespace waybill::app
