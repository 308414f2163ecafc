#include <fmt/format.h>

#include "waybill/rabbitmq_source.h"

#include "consume/broker_kit.h"

namespace waybill {

std::unique_ptr<MessageSource> make_source(const SourceWanted& wanted, Log log) {
  std::string hosts;
  for (const std::uint16_t port : wanted.ports) hosts += fmt::format("{}127.0.0.1:{}", hosts.empty() ? "" : ",", port);
  return rabbitmq_source({.url = fmt::format("amqp://guest:{}@{}/", wanted.password, hosts),
                          .queue = wanted.queue,
                          .prefetch = wanted.prefetch,
                          .dead_letters = true,
                          .connect_timeout = std::chrono::seconds(30),
                          .heartbeat = wanted.heartbeat,
                          .reconnect_max = std::chrono::milliseconds(500)},
                         std::move(log));
}

}  // namespace waybill
