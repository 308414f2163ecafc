#include "sink/rabbitmq/dresser.h"

#include <fmt/format.h>

namespace waybill::rabbitmq {

std::string too_large(std::size_t bytes, std::size_t bytes_max) {
  return fmt::format("the message has {} bytes; the broker takes {} at most (its max_message_size)", bytes, bytes_max);
}

std::string Dresser::dress(const EventView& event) {
  if (std::string why = options_.exchange->resolve_by_template(exchange_, event); !why.empty()) return why;
  if (std::string why = options_.routing_key->resolve(routing_key_, event); !why.empty()) return why;
  if (std::string why = options_.encode(event, message_); !why.empty()) return why;
  return message_.body.size() > bytes_max_ ? too_large(message_.body.size(), bytes_max_) : std::string();
}

}  // namespace waybill::rabbitmq
