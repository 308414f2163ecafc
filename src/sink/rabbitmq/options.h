#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "waybill/log.h"
#include "waybill/sink.h"

#include "broker/rabbitmq/options.h"
#include "message/address.h"
#include "message/envelope.h"

namespace waybill {

// What is made on the broker, if it is not there, at every connection.
struct RabbitmqDeclare {
  bool on = false;
  std::string exchange_type = "topic";
  std::string queue{};  // Empty: only the exchange.
  std::string queue_type = "quorum";
  std::vector<std::string> bindings{};  // Routing keys, with wildcards, by which the queue gets what is published.
  bool durable = true;
};

struct RabbitmqOptions : RabbitmqServers {
  std::optional<Address> exchange{};     // Required, as are the next
  std::optional<Address> routing_key{};  // two.
  Encoder encode{};
  bool exchange_is_fixed = true;  // It is the same for every event:
  std::string fixed_exchange{};   // this one.

  // A quorum queue makes publishers wait from 256 unconfirmed messages on (quorum_commands_soft_limit), and then takes
  // a quarter less.
  std::size_t in_flight_max = 250;
  std::size_t message_bytes_max = std::size_t{16} << 20;
  std::chrono::milliseconds confirm_timeout{30'000};  // Time in which the broker holds us off does not count.
  RabbitmqDeclare declare{};
};

// Publishes to RabbitMQ: persistent, mandatory, confirmed. `delivered` is a message that was not returned and that the
// broker has confirmed. A thread of its own owns the connection, sends heartbeats, and connects when there is something
// to send; when that fails it waits to be asked again. docs/rabbitmq.md has every outcome.
std::unique_ptr<Sink> rabbitmq_sink(RabbitmqOptions options, Log log);

}  // namespace waybill
