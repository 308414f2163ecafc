// What is looked at or made on the broker before anything is published.
#include <array>

#include <fmt/format.h>

#include "waybill/error.h"

#include "sink/rabbitmq/connection.h"

namespace waybill::rabbitmq {
namespace {

void require(const std::optional<Refusal>& refusal, const Connection& connection, const std::string& what,
             std::string_view remedy) {
  if (refusal)
    throw Error(Remedy::fix_config,
                fmt::format("{}: {}: {}; {}", connection.where(), what, describe(*refusal), remedy));
}

void look_for_exchange(Connection& connection, const RabbitmqOptions& options, Steady deadline) {
  amqp_exchange_declare_t look{};
  look.exchange = bytes_of(options.fixed_exchange);
  look.type = bytes_of(options.declare.exchange_type);
  look.passive = 1;
  require(connection.ask(AMQP_EXCHANGE_DECLARE_METHOD, &look, AMQP_EXCHANGE_DECLARE_OK_METHOD, deadline), connection,
          fmt::format("exchange '{}' is not there for user '{}'", options.fixed_exchange, options.user),
          "make it, or let Waybill do so: declare = {}");
}

void declare_exchange(Connection& connection, const RabbitmqOptions& options, Steady deadline) {
  amqp_exchange_declare_t declare{};
  declare.exchange = bytes_of(options.fixed_exchange);
  declare.type = bytes_of(options.declare.exchange_type);
  declare.durable = options.declare.durable ? 1 : 0;
  require(connection.ask(AMQP_EXCHANGE_DECLARE_METHOD, &declare, AMQP_EXCHANGE_DECLARE_OK_METHOD, deadline), connection,
          fmt::format("exchange '{}' cannot be declared", options.fixed_exchange),
          "give the user the permission to configure it, or declare it as it is");
}

void declare_queue(Connection& connection, const RabbitmqOptions& options, Steady deadline) {
  const RabbitmqDeclare& wanted = options.declare;
  amqp_table_entry_t type{};
  type.key = bytes_of("x-queue-type");
  type.value.kind = AMQP_FIELD_KIND_UTF8;
  type.value.value.bytes = bytes_of(wanted.queue_type);
  amqp_queue_declare_t declare{};
  declare.queue = bytes_of(wanted.queue);
  declare.durable = wanted.durable ? 1 : 0;
  declare.arguments = {.num_entries = 1, .entries = &type};
  require(connection.ask(AMQP_QUEUE_DECLARE_METHOD, &declare, AMQP_QUEUE_DECLARE_OK_METHOD, deadline), connection,
          fmt::format("queue '{}' cannot be declared", wanted.queue),
          "give the user the permission to configure it, or declare it as it is");
  for (const std::string& key : wanted.bindings) {
    amqp_queue_bind_t bind{};
    bind.queue = bytes_of(wanted.queue);
    bind.exchange = bytes_of(options.fixed_exchange);
    bind.routing_key = bytes_of(key);
    require(connection.ask(AMQP_QUEUE_BIND_METHOD, &bind, AMQP_QUEUE_BIND_OK_METHOD, deadline), connection,
            fmt::format("queue '{}' cannot be bound to exchange '{}'", wanted.queue, options.fixed_exchange),
            "give the user the permissions to write the queue and read the exchange");
  }
}

}  // namespace

void prepare(Connection& connection, const RabbitmqOptions& options, Steady deadline) {
  connection.open_channel(deadline);
  // The default exchange is always there, and nobody may declare or bind it.
  const bool named = options.exchange_is_fixed && !options.fixed_exchange.empty();
  if (options.declare.on) {
    if (named) declare_exchange(connection, options, deadline);
    if (!options.declare.queue.empty()) declare_queue(connection, options, deadline);
  } else if (named) {
    look_for_exchange(connection, options, deadline);
  }
}

}  // namespace waybill::rabbitmq
