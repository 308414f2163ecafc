#pragma once

#include <string_view>

#include "waybill/event.h"

#include "message/binding.h"
#include "message/message.h"

namespace waybill {

// CloudEvents 1.0. Both take a message that has the event's own headers and its id already.

// Adds every attribute but datacontenttype as a header.
void append_cloudevents_headers(Message& message, const EventView& event, std::string_view source,
                                const Binding& binding);

// Makes the body the event in CloudEvents' JSON format: the payload as `data`, byte for byte, if it is JSON and its
// content type says so; as `data_base64` if not.
void append_cloudevents_json(Message& message, const EventView& event, std::string_view source);

}  // namespace waybill
