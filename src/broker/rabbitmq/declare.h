#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "waybill/time.h"

#include "broker/rabbitmq/connection.h"

namespace waybill::rabbitmq {

// What is looked for or made on the broker, on the connection's channel. All throw Error(fix_config) if it refuses.

struct QueueArgument {
  std::string_view name{};
  std::variant<std::string_view, bool, int> value{};
};

void look_for_exchange(Connection& connection, const std::string& name, const std::string& type,
                       std::string_view remedy, Steady deadline);
void declare_exchange(Connection& connection, const std::string& name, const std::string& type, bool durable,
                      Steady deadline);
void look_for_queue(Connection& connection, const std::string& name, std::string_view remedy, Steady deadline);
void declare_queue(Connection& connection, const std::string& name, bool durable,
                   std::span<const QueueArgument> arguments, Steady deadline);
void bind_queue(Connection& connection, const std::string& queue, const std::string& exchange, const std::string& key,
                Steady deadline);

}  // namespace waybill::rabbitmq
