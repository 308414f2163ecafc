#pragma once

#include <vector>

#include "waybill/store.h"
#include "waybill/time.h"

#include "sink/rabbitmq/options.h"

namespace waybill::rabbitmq {

// Would events be safe there? Connects, and declares what is to be declared. What the protocol does not show is not
// looked at: whether a queue is bound, of which type it is, whether an exchange that is there is durable.
std::vector<Finding> examine(const RabbitmqOptions& options, Steady deadline);

}  // namespace waybill::rabbitmq
