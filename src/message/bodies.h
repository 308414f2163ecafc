#pragma once

#include <span>
#include <string>
#include <string_view>

#include "waybill/event.h"

#include "message/message.h"
#include "message/template.h"

namespace waybill {

// Bodies in JSON. All take a message that has the event's own headers and its properties already.

// Appends "name":"value", after a comma unless it is the first of its object.
void append_member(std::string& out, std::string_view name, std::string_view value);
// The same for a value that is JSON already.
void append_json_member(std::string& out, std::string_view name, std::string_view json);
// The payload under `name`, byte for byte, if it goes `as_json`; else in base64 under `name`_base64.
void append_payload(std::string& out, std::string_view name, const EventView& event, bool as_json);

// id, aggregate_id, aggregate_type, event_type, event_data, metadata, version, timestamp: always there, in this order;
// schema_id and schema_version if the event has them.
void append_waybill_json(Message& message, const EventView& event);

// MassTransit's envelope. Returns why the event cannot be in one; empty if it can.
std::string append_masstransit_json(Message& message, const EventView& event, std::span<const Template> types);

}  // namespace waybill
