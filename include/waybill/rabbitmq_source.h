#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "waybill/api.h"
#include "waybill/consume.h"
#include "waybill/log.h"

namespace WAYBILL_API waybill {

// What is made on the broker, if it is not there, at every connection.
struct RabbitmqQueueDeclare {
  bool on = false;
  std::string queue_type = "quorum";  // or "classic"
  // One consumer at a time gets messages; another takes over when it is gone. Nothing else keeps the order of a key
  // with several processes, or when a connection is lost.
  bool single_active_consumer = true;
  std::string exchange{};  // Is declared, and the queue bound to it; empty: neither.
  std::string exchange_type = "topic";
  std::vector<std::string> bindings{};  // Routing keys, with wildcards; none: "#".
  std::string dead_letter_queue{};      // Is declared, and gets what is rejected; empty: QUEUE.dead
  int delivery_limit = 0;  // quorum: how often a message is handed out before it goes there; 0: as set there.
};

// A queue of RabbitMQ. Messages are acknowledged one by one.
//
// Order: what is not acknowledged when a connection is lost goes back to its place in the queue. While the broker has
// not noticed that yet, another consumer of the queue, or we ourselves after connecting again, may get what comes after
// it; so the order of a key holds in queues with `single_active_consumer`, and otherwise as long as the connection
// does and there is no other consumer.
struct RabbitmqSourceOptions {
  std::string url{};       // "amqp://user:password@host-1:5672,host-2/vhost", "amqps://…"; hosts are tried in turn.
  std::string password{};  // instead of one in the URL
  bool external = false;   // Log in by tls_certificate.
  std::string tls_ca{};    // File of certificates to trust; empty: the system's.
  std::string tls_certificate{};
  std::string tls_key{};
  std::string tls_server_name{};  // What the broker's certificate is made out to; empty: the host.

  std::string queue{};
  std::string name{};           // What the broker's people see; empty: the queue's.
  std::uint16_t prefetch = 20;  // Most messages that are here and not acknowledged. 1 to 10,000.
  // A larger body is not taken in: the message is given up, as one that cannot be read. 1 KiB to 512 MiB. Memory: at
  // most `prefetch` of them.
  std::size_t message_bytes_max = std::size_t{16} << 20;
  // The queue has a dead letter exchange: what is rejected goes there. The protocol does not tell, and without one the
  // broker throws it away. So without this nothing is rejected. A declared queue always has one.
  bool dead_letters = false;
  RabbitmqQueueDeclare declare{};

  std::chrono::milliseconds connect_timeout{5'000};  // For each host.
  std::chrono::seconds heartbeat{10};                // After twice this long without a sign the broker is gone.
  std::chrono::milliseconds reconnect_max{30'000};   // Longest wait before it is tried again.
};

// Throws Error(fix_config) for options that cannot be.
std::unique_ptr<MessageSource> rabbitmq_source(RabbitmqSourceOptions options, Log log);

}  // namespace waybill
