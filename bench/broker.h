#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "waybill/sink.h"

#include "message/binding.h"
#include "message/message.h"

namespace waybill::bench {

using SteadyTime = std::chrono::steady_clock::time_point;

// Somebody who only publishes, by the broker's client library as it comes: the same headers and bodies as the relay's,
// with the broker's confirmation of each. Connected when it is made; for one use.
class BarePublisher {
 public:
  virtual ~BarePublisher() = default;

  // From the first message to the last confirmation, with no more than the window unconfirmed at once.
  virtual void publish(long events) = 0;
  // How long the confirmation of each takes at a steady rate, in milliseconds.
  virtual std::vector<double> round_trips(int rate, std::chrono::milliseconds duration) = 0;
};

// A broker of the bench's own, with one place that events go to.
class Broker {
 public:
  virtual ~Broker() = default;

  virtual std::string name() const = 0;
  // A destination there, as lines of a configuration; with another port: one that is away.
  virtual std::string destination(std::uint16_t port) const = 0;
  virtual std::uint16_t port() const = 0;
  // The relay's own way there.
  virtual std::unique_ptr<Sink> sink() const = 0;
  virtual std::unique_ptr<BarePublisher> publisher(int window) const = 0;
  // Makes the place anew: neither messages nor memory of their ids are left.
  virtual void empty() = 0;
  virtual long count() = 0;
  // What the processor has spent on it so far, in seconds.
  virtual double cpu() const = 0;
};

std::unique_ptr<Broker> rabbitmq_broker(const std::string& queue_type);
std::unique_ptr<Broker> nats_broker();

// An event of the workload, dressed as the relay does it unless told otherwise.
Message sample_message(const Binding& binding);
// An id for message n of a publisher, as long as an event's. No two publishers of a run have the same.
std::string message_id(int publisher, long n);
int next_publisher();

}  // namespace waybill::bench
