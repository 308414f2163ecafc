#pragma once

#include "config/section.h"
#include "message/sink_setup.h"

namespace waybill {

// The keys of a destination of the type "rabbitmq"; docs/rabbitmq.md has them all.
SinkSetup read_rabbitmq(config::Section& section);

}  // namespace waybill
