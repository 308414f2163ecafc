#pragma once

#include <string>
#include <vector>

#include "waybill/store.h"

#include "app/commands.h"

namespace waybill::app {

// The filter that the flags stand for. Throws Error(fix_input) that names the flag.
UndeliveredFilter filter_of(const SelectionOptions& options);

// Is anything asked for in particular?
bool is_empty(const SelectionOptions& options);

EventId parse_event_id(const std::string& text);
std::vector<Standing> parse_standings(const std::vector<std::string>& names, const std::vector<Standing>& allowed);

std::vector<std::string> known_destinations(const StoreStatus& status);

// Throws Error(fix_input) with a suggestion unless the store knows the destination.
void require_destination(const StoreStatus& status, const std::string& name);

}  // namespace waybill::app
