#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "waybill/time.h"

namespace waybill::nats {

// What the address that a message is acknowledged at tells of it.
struct Place {
  std::uint64_t sequence = 0;    // In the stream.
  std::int64_t deliveries = 1;   // This one included.
  std::optional<Time> stored{};  // When.
};

// "$JS.ACK.stream.consumer.deliveries.sequence.…", or the newer form with domain and account. Nothing if it is neither.
std::optional<Place> read_place(std::string_view ack_subject);

}  // namespace waybill::nats
