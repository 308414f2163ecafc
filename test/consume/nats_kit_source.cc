#include <fmt/format.h>

#include "waybill/nats_source.h"

#include "consume/broker_kit.h"

namespace waybill {

std::unique_ptr<MessageSource> make_source(const SourceWanted& wanted, Log log) {
  NatsSourceOptions options{.stream = wanted.queue,
                            .durable = "test",
                            .prefetch = wanted.prefetch,
                            .ack_wait = wanted.ack_wait,
                            .connect_timeout = std::chrono::seconds(30),
                            .heartbeat = wanted.heartbeat,
                            .reconnect_max = std::chrono::milliseconds(500)};
  for (const std::uint16_t port : wanted.ports) options.servers.push_back(fmt::format("nats://127.0.0.1:{}", port));
  return nats_source(std::move(options), std::move(log));
}

}  // namespace waybill
