#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "waybill/rabbitmq_source.h"

#include "broker/rabbitmq/connection.h"
#include "broker/rabbitmq/options.h"
#include "consume/link_source.h"

namespace waybill::rabbitmq {

// What a broker hands out from a queue. A message's number is its delivery tag.
class RabbitmqLink final : public consume::Link {
 public:
  // Logged in, the queue there, and subscribed to it, by `deadline`. What is referred to must outlive it.
  RabbitmqLink(const RabbitmqSourceOptions& options, const RabbitmqServers& servers, const net::Host& host,
               const net::Patience& patience, Steady deadline);

  void accept(std::uint64_t number) override;
  void reject(std::uint64_t number, const std::string& reason) override;
  void work(std::vector<Incoming>& come, Steady now) override;
  Steady work_at() const override { return connection_.attend_at(); }
  int fd() const override { return connection_.fd(); }
  bool waits_for_room() const override { return connection_.waits_for_room(); }
  const std::string& where() const override { return connection_.where(); }
  bool keeps_rejected() const override { return options_.dead_letters || options_.declare.on; }
  void close(Steady deadline) noexcept override { connection_.close(deadline); }

 private:
  void declare(Steady deadline);
  void subscribe(Steady deadline);
  void take(const amqp_frame_t& frame, std::vector<Incoming>& come);
  void take_method(const amqp_method_t& method);
  void take_deliver(const amqp_basic_deliver_t& deliver);
  void take_header(Incoming& incoming, const amqp_frame_t& frame);

  const RabbitmqSourceOptions& options_;
  Connection connection_;
  std::size_t open_ = 0;              // Messages that came and are not settled.
  std::optional<Incoming> arriving_;  // Its method has come;
  std::uint64_t body_left_ = 0;       // so much of its body has not.
};

// Fills in what the protocol has a place of its own for, and the headers.
void take_properties(Incoming& incoming, const amqp_basic_properties_t& properties);

}  // namespace waybill::rabbitmq
