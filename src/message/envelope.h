#pragma once

#include <functional>
#include <string>
#include <vector>

#include "waybill/event.h"

#include "message/binding.h"
#include "message/message.h"
#include "message/template.h"

namespace waybill {

// How an event is dressed for the wire. docs/envelopes.md shows each.
enum class Envelope {
  cloudevents,             // CloudEvents 1.0, binary mode: the body is the payload, attributes are headers.
  cloudevents_structured,  // CloudEvents 1.0 in JSON.
  waybill,                 // A JSON object: id, aggregate_id, event_type, event_data, …
  raw,                     // The payload, and nothing else.
  masstransit,             // MassTransit's JSON.
};

struct EnvelopeOptions {
  Envelope envelope = Envelope::cloudevents;
  std::string source = "/waybill";        // CloudEvents: who sends; a URI, absolute or not.
  std::vector<Template> message_types{};  // MassTransit: what to take the message for; at least one.
};

// Fills `message` with `event`, every field of it. Returns why the event cannot be carried, which is for ever (outcome
// `rejected`); empty if it can. The event's own headers come first, then the envelope's. One thread at a time.
using Encoder = std::function<std::string(const EventView& event, Message& message)>;

// `binding` must outlive the encoder.
Encoder encoder(EnvelopeOptions options, const Binding& binding);

}  // namespace waybill
