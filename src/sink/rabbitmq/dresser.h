#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "waybill/event.h"

#include "message/message.h"
#include "sink/rabbitmq/options.h"

namespace waybill::rabbitmq {

// A Dresser makes an event a message with an address. One thread.
class Dresser {
 public:
  // `options` must outlive it.
  explicit Dresser(const RabbitmqOptions& options) : options_(options), bytes_max_(options.message_bytes_max) {}

  // Returns why the event can never be sent, as far as we know; empty if it can. Then what follows is about it, until
  // the next call.
  std::string dress(const EventView& event);
  const std::string& exchange() const { return exchange_; }
  const std::string& routing_key() const { return routing_key_; }
  const Message& message() const { return message_; }

  // The broker takes less than we thought.
  void learn(std::size_t message_bytes_max) { bytes_max_ = std::min(bytes_max_, message_bytes_max); }
  std::size_t bytes_max() const { return bytes_max_; }

 private:
  const RabbitmqOptions& options_;
  std::size_t bytes_max_;
  std::string exchange_;
  std::string routing_key_;
  Message message_;
};

// "it has 2000000 bytes; the broker takes 1048576 at most"
std::string too_large(std::size_t bytes, std::size_t bytes_max);

}  // namespace waybill::rabbitmq
