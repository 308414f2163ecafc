#pragma once

#include "waybill/consume.h"

namespace waybill::consume {

// Takes a message out of its envelope: CloudEvents in both modes, MassTransit's and Waybill's own, or none. Throws
// Rejection if it cannot be read; the text holds nothing of the payload. The body may be moved out of `incoming`.
Delivery decode(Incoming& incoming, MessageForm form);

// What a message says of itself as far as it can be said without reading it, for those that cannot be read.
Delivery outside_of(const Incoming& incoming);

// What follows from a message follows from this.
EventContext context_of(const Delivery& delivery);

}  // namespace waybill::consume
