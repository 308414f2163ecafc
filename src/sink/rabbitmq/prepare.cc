#include "sink/rabbitmq/prepare.h"

#include <array>

#include <fmt/format.h>

#include "waybill/error.h"

#include "broker/rabbitmq/declare.h"

namespace waybill::rabbitmq {
namespace {

// What is published on it is confirmed.
void open_confirming_channel(Connection& connection, Steady deadline) {
  connection.open_channel(deadline);
  amqp_confirm_select_t confirms{};
  if (const auto refusal =
          connection.ask(AMQP_CONFIRM_SELECT_METHOD, &confirms, AMQP_CONFIRM_SELECT_OK_METHOD, deadline))
    throw Error(Remedy::fix_config, fmt::format("{}: {}", connection.where(), describe(*refusal)));
}

}  // namespace

void prepare(Connection& connection, const RabbitmqOptions& options, Steady deadline) {
  open_confirming_channel(connection, deadline);
  const RabbitmqDeclare& wanted = options.declare;
  // The default exchange is always there, and nobody may declare or bind it.
  const bool named = options.exchange_is_fixed && !options.fixed_exchange.empty();
  if (!wanted.on) {
    if (named)
      look_for_exchange(connection, options.fixed_exchange, wanted.exchange_type,
                        "make it, or let Waybill do so: declare = {}", deadline);
    return;
  }
  if (named) declare_exchange(connection, options.fixed_exchange, wanted.exchange_type, wanted.durable, deadline);
  if (wanted.queue.empty()) return;
  const std::array arguments{QueueArgument{.name = "x-queue-type", .value = wanted.queue_type}};
  declare_queue(connection, wanted.queue, wanted.durable, arguments, deadline);
  for (const std::string& key : wanted.bindings)
    bind_queue(connection, wanted.queue, options.fixed_exchange, key, deadline);
}

}  // namespace waybill::rabbitmq
