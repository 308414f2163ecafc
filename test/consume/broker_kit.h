#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "waybill/consume.h"
#include "waybill/sink.h"

#include "message/envelope.h"

namespace waybill {

// A source as a test wants it, of the broker that the binary is for.
struct SourceWanted {
  std::vector<std::uint16_t> ports{};  // of hosts, all of them this one
  std::string queue{};                 // "", or a stream and its consumer of that name
  std::uint16_t prefetch = 20;
  std::chrono::seconds ack_wait{30};  // NATS
  std::chrono::seconds heartbeat{10};
  std::string password = "guest";  // RabbitMQ
};
std::unique_ptr<MessageSource> make_source(const SourceWanted& wanted, Log log);

// The broker that the binary is for, and what an operator does there.
class BrokerKit {
 public:
  virtual ~BrokerKit() = default;

  virtual std::uint16_t port() const = 0;
  virtual void restart() = 0;
  // A queue of that name, whatever is rejected goes to dead letters.
  virtual void make_queue(const std::string& queue) = 0;
  virtual std::unique_ptr<Sink> sink(const std::string& queue, Envelope envelope) = 0;
  // Nobody may read from it until it is made again: what a consumer reads is gone.
  virtual void remove(const std::string& queue) = 0;
  // How many messages nobody has settled, none of them with a consumer; and how many were rejected.
  virtual std::uint64_t unsettled(const std::string& queue) = 0;
  virtual std::uint64_t dead(const std::string& queue) = 0;
  // Is what is given back handed out again at once? nats-server before 2.10 keeps the first of it until ack_wait is
  // over.
  virtual bool hands_out_again_at_once() const = 0;
};
// One for the whole binary.
BrokerKit& broker();

}  // namespace waybill
