#include "broker/rabbitmq/declare.h"

#include <vector>

#include <fmt/format.h>

#include "waybill/error.h"

namespace waybill::rabbitmq {
namespace {

constexpr std::string_view may_configure = "give the user the permission to configure it, or declare it as it is";

void require(const std::optional<Refusal>& refusal, const Connection& connection, const std::string& what,
             std::string_view remedy) {
  if (refusal)
    throw Error(remedy_of(*refusal),
                fmt::format("{}: {}: {}; {}", connection.where(), what, describe(*refusal), remedy));
}

amqp_table_entry_t entry_of(const QueueArgument& argument) {
  amqp_table_entry_t entry{};
  entry.key = bytes_of(argument.name);
  if (const auto* text = std::get_if<std::string_view>(&argument.value)) {
    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = bytes_of(*text);
  } else if (const auto* flag = std::get_if<bool>(&argument.value)) {
    entry.value.kind = AMQP_FIELD_KIND_BOOLEAN;
    entry.value.value.boolean = *flag ? 1 : 0;
  } else {
    entry.value.kind = AMQP_FIELD_KIND_I32;
    entry.value.value.i32 = std::get<int>(argument.value);
  }
  return entry;
}

}  // namespace

void look_for_exchange(Connection& connection, const std::string& name, const std::string& type,
                       std::string_view remedy, Steady deadline) {
  amqp_exchange_declare_t look{};
  look.exchange = bytes_of(name);
  look.type = bytes_of(type);
  look.passive = 1;
  require(connection.ask(AMQP_EXCHANGE_DECLARE_METHOD, &look, AMQP_EXCHANGE_DECLARE_OK_METHOD, deadline), connection,
          fmt::format("exchange '{}' is not there for user '{}'", name, connection.user()), remedy);
}

void declare_exchange(Connection& connection, const std::string& name, const std::string& type, bool durable,
                      Steady deadline) {
  amqp_exchange_declare_t declare{};
  declare.exchange = bytes_of(name);
  declare.type = bytes_of(type);
  declare.durable = durable ? 1 : 0;
  require(connection.ask(AMQP_EXCHANGE_DECLARE_METHOD, &declare, AMQP_EXCHANGE_DECLARE_OK_METHOD, deadline), connection,
          fmt::format("exchange '{}' cannot be declared", name), may_configure);
}

void look_for_queue(Connection& connection, const std::string& name, std::string_view remedy, Steady deadline) {
  amqp_queue_declare_t look{};
  look.queue = bytes_of(name);
  look.passive = 1;
  require(connection.ask(AMQP_QUEUE_DECLARE_METHOD, &look, AMQP_QUEUE_DECLARE_OK_METHOD, deadline), connection,
          fmt::format("queue '{}' is not there for user '{}'", name, connection.user()), remedy);
}

void declare_queue(Connection& connection, const std::string& name, bool durable,
                   std::span<const QueueArgument> arguments, Steady deadline) {
  std::vector<amqp_table_entry_t> entries;
  for (const QueueArgument& argument : arguments) entries.push_back(entry_of(argument));
  amqp_queue_declare_t declare{};
  declare.queue = bytes_of(name);
  declare.durable = durable ? 1 : 0;
  declare.arguments = {.num_entries = static_cast<int>(entries.size()), .entries = entries.data()};
  require(connection.ask(AMQP_QUEUE_DECLARE_METHOD, &declare, AMQP_QUEUE_DECLARE_OK_METHOD, deadline), connection,
          fmt::format("queue '{}' cannot be declared", name), may_configure);
}

void bind_queue(Connection& connection, const std::string& queue, const std::string& exchange, const std::string& key,
                Steady deadline) {
  amqp_queue_bind_t bind{};
  bind.queue = bytes_of(queue);
  bind.exchange = bytes_of(exchange);
  bind.routing_key = bytes_of(key);
  require(connection.ask(AMQP_QUEUE_BIND_METHOD, &bind, AMQP_QUEUE_BIND_OK_METHOD, deadline), connection,
          fmt::format("queue '{}' cannot be bound to exchange '{}'", queue, exchange),
          "give the user the permissions to write the queue and read the exchange");
}

}  // namespace waybill::rabbitmq
