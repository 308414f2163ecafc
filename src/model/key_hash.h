#pragma once

#include <cstdint>

#include "waybill/event.h"

namespace waybill {

// A number for the event's tenant and ordering key; 0 if it is its own key. Two keys with one number are kept
// in order together, which costs speed and breaks nothing. Fixed for ever: undelivered events are kept under it. It
// is not what shards are made of.
std::uint64_t key_hash(const EventView& event);

}  // namespace waybill
