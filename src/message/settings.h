#pragma once

#include <string_view>

#include "config/section.h"
#include "message/address.h"
#include "message/binding.h"
#include "message/envelope.h"

namespace waybill {

// The keys by which a destination says how its messages look and where they go. What is wrong is noted in the section.

// `envelope`, `source`, `message_type`.
Encoder read_encoder(config::Section& section, const Binding& binding);

// `attribute_names`: how attributes of CloudEvents are called in AMQP 0-9-1.
const Binding& read_amqp_binding(config::Section& section);

// `own_routing_key`: whether an event's own routing key counts for `address`.
void read_own_routing_key(config::Section& section, Address& address);

// A template under `key`.
Address read_address(config::Section& section, std::string_view key, std::string_view fallback,
                     const AddressRules& rules, std::string_view about);

}  // namespace waybill
