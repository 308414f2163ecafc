#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "config/section.h"
#include "message/sink_setup.h"
#include "sink/nats/options.h"

namespace waybill {

// The keys of a destination of type "nats". `retry_gap`: the longest time between two attempts of an event.
SinkSetup read_nats(config::Section& section, std::chrono::milliseconds retry_gap);

// A pattern that matches every subject which the template can come to.
std::string subject_pattern(std::string_view subject_template);

}  // namespace waybill
