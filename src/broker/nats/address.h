#pragma once

#include <optional>
#include <string_view>

#include "net/host.h"

namespace waybill {

// "nats://host:4222", "tls://host", "host:4222", "[::1]:4222". Nothing if it is none of these.
struct NatsAddress {
  net::Host server{.port = 4222};
  bool tls = false;
};
std::optional<NatsAddress> parse_nats_address(std::string_view text);

}  // namespace waybill
