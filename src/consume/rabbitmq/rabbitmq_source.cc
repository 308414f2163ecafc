#include "waybill/rabbitmq_source.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "broker/rabbitmq/url.h"
#include "consume/rabbitmq/rabbitmq_link.h"
#include "message/text.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t name_bytes_max = 255;
constexpr std::uint16_t prefetch_max = 10'000;
constexpr std::size_t message_bytes_least = std::size_t{1} << 10;
constexpr std::size_t message_bytes_most = std::size_t{512} << 20;  // RabbitMQ takes none that is larger.

void require(bool holds, std::string_view what) {
  if (!holds) throw Error(Remedy::fix_config, fmt::format("rabbitmq_source: {}", what));
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= name_bytes_max && text_problem(name).empty();
}

void check_declare(const RabbitmqQueueDeclare& declare) {
  require(declare.queue_type == "quorum" || declare.queue_type == "classic",
          "declare.queue_type must be quorum or classic");
  require(declare.delivery_limit >= 0, "declare.delivery_limit must not be negative");
  require(declare.delivery_limit == 0 || declare.queue_type == "quorum",
          "declare.delivery_limit is for quorum queues; others do not count");
  require(!declare.exchange.empty() || declare.bindings.empty(), "declare.bindings needs declare.exchange");
  for (const std::string& name : {declare.exchange, declare.dead_letter_queue})
    require(name.empty() || is_name(name), "names in declare must be at most 255 bytes of text");
}

void check(const RabbitmqSourceOptions& options) {
  require(is_name(options.queue), "queue must be 1 to 255 bytes of text");
  require(options.prefetch >= 1 && options.prefetch <= prefetch_max, "prefetch must be 1 to 10,000");
  require(options.message_bytes_max >= message_bytes_least && options.message_bytes_max <= message_bytes_most,
          "message_bytes_max must be 1 KiB to 512 MiB");
  require(options.connect_timeout > 0ms && options.reconnect_max > 0ms, "times must be more than 0");
  require(options.heartbeat >= 1s && options.heartbeat <= 600s, "heartbeat must be 1 s to 10 min");
  require(options.tls_certificate.empty() == options.tls_key.empty(), "a certificate and its key go together");
  if (options.declare.on) check_declare(options.declare);
}

RabbitmqServers servers_of(const RabbitmqSourceOptions& options) {
  const auto url = [&] {
    try {
      return rabbitmq::parse_url(options.url);
    } catch (const Error& error) {
      throw Error(Remedy::fix_config, fmt::format("rabbitmq_source: url {}", error.what()));
    }
  }();
  RabbitmqServers servers;
  servers.name = options.name.empty() ? options.queue : options.name;
  servers.hosts = url.hosts;
  servers.vhost = url.vhost;
  if (!url.user.empty()) servers.user = url.user;
  require(options.password.empty() || url.password.empty(), "the password stands in the URL, too; remove one");
  servers.password = options.password.empty() ? url.password : options.password;
  servers.sasl = options.external ? RabbitmqServers::Sasl::external : RabbitmqServers::Sasl::plain;
  servers.tls = {.on = url.tls,
                 .ca = options.tls_ca,
                 .certificate = options.tls_certificate,
                 .key = options.tls_key,
                 .server_name = options.tls_server_name};
  const bool has_tls_options =
      !options.tls_ca.empty() || !options.tls_certificate.empty() || !options.tls_server_name.empty();
  require(url.tls || !has_tls_options, R"(tls_… is for TLS; begin the URL with "amqps://")");
  require(!options.external || (url.tls && !options.tls_certificate.empty()),
          "external logs in by a certificate: it needs amqps:// and tls_certificate");
  servers.connect_timeout = options.connect_timeout;
  servers.heartbeat = options.heartbeat;
  return servers;
}

}  // namespace

std::unique_ptr<MessageSource> rabbitmq_source(RabbitmqSourceOptions options, Log log) {
  check(options);
  struct Setup {
    RabbitmqSourceOptions options{};
    RabbitmqServers servers{};
  };
  RabbitmqServers servers = servers_of(options);
  const auto setup = std::make_shared<const Setup>(Setup{.options = std::move(options), .servers = std::move(servers)});
  return std::make_unique<consume::LinkSource>(
      consume::LinkOptions{.name = setup->servers.name,
                           .hosts = setup->servers.hosts.size(),
                           .connect_timeout = setup->options.connect_timeout,
                           .reconnect_max = setup->options.reconnect_max},
      [setup](std::size_t host, const net::Patience& patience, Steady deadline) {
        return std::make_unique<rabbitmq::RabbitmqLink>(setup->options, setup->servers, setup->servers.hosts[host],
                                                        patience, deadline);
      },
      std::move(log));
}

}  // namespace waybill
