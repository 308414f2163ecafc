#pragma once

#include "waybill/time.h"

#include "broker/rabbitmq/connection.h"
#include "sink/rabbitmq/options.h"

namespace waybill::rabbitmq {

// What is declared, or else looked for, before anything is published. Throws Error(fix_config) if the broker refuses.
void prepare(Connection& connection, const RabbitmqOptions& options, Steady deadline);

}  // namespace waybill::rabbitmq
