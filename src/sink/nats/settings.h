#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "config/section.h"
#include "message/sink_setup.h"
#include "sink/nats/options.h"

namespace waybill {

// The keys of a destination of type "nats". `retry_gap`: the longest time between two attempts of an event.
SinkSetup read_nats(config::Section& section, std::chrono::milliseconds retry_gap);

// "nats://host:4222", "tls://host", "host:4222", "[::1]:4222". Nothing if it is none of these.
struct NatsAddress {
  net::Host server{.port = 4222};
  bool tls = false;
};
std::optional<NatsAddress> parse_nats_address(std::string_view text);

// A pattern that matches every subject which the template can come to.
std::string subject_pattern(std::string_view subject_template);

}  // namespace waybill
