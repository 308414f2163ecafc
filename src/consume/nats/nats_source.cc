#include "waybill/nats_source.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "broker/nats/address.h"
#include "consume/nats/nats_link.h"
#include "message/text.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

void require(bool holds, std::string_view what) {
  if (!holds) throw Error(Remedy::fix_config, fmt::format("nats_source: {}", what));
}

// A word of a subject.
bool is_name(const std::string& name) {
  return !name.empty() && name.find_first_of(" .*>/\\\t\r\n") == std::string::npos && text_problem(name).empty();
}

bool is_subject(const std::string& subject) {
  return !subject.empty() && subject.find_first_of(" \t\r\n") == std::string::npos && text_problem(subject).empty();
}

void check(const NatsSourceOptions& options) {
  require(is_name(options.stream), "stream must be a name without spaces, dots, slashes and wildcards");
  require(is_name(options.durable), "durable must be a name without spaces, dots, slashes and wildcards");
  require(options.domain.empty() || is_name(options.domain), "domain must be a name");
  require(is_subject(options.inbox_prefix) && options.inbox_prefix.find_first_of("*>") == std::string::npos,
          "inbox_prefix must be words parted by dots");
  require(std::all_of(options.subjects.begin(), options.subjects.end(), is_subject), "one of subjects is none");
  require(options.prefetch >= 1 && options.prefetch <= 10'000, "prefetch must be 1 to 10,000");
  require(options.message_bytes_max >= (std::size_t{1} << 10) && options.message_bytes_max <= (std::size_t{64} << 20),
          "message_bytes_max must be 1 KiB to 64 MiB");
  require(options.ack_wait >= 1s, "ack_wait must be 1 s or more");
  require(options.max_deliver == -1 || options.max_deliver > 0, "max_deliver must be -1 or more than 0");
  require(options.connect_timeout > 0ms && options.heartbeat > 0ms && options.reconnect_max > 0ms,
          "times must be more than 0");
}

NatsLogin login_of(const NatsSourceOptions& options) {
  const std::array given{!options.user.empty(), !options.token.empty(), !options.credentials_file.empty(),
                         !options.nkey.empty()};
  require(std::count(given.begin(), given.end(), true) <= 1,
          "user, token, credentials_file and nkey exclude each other");
  require(options.user.empty() == options.password.empty(), "user and password go together");
  require(options.nkey.empty() == options.nkey_seed_file.empty(), "nkey and nkey_seed_file go together");
  return {.user = options.user,
          .password = options.password,
          .token = options.token,
          .credentials_file = options.credentials_file,
          .nkey = options.nkey,
          .nkey_seed_file = options.nkey_seed_file};
}

NatsServers servers_of(const NatsSourceOptions& options) {
  NatsServers servers;
  servers.tls = {.on = options.tls,
                 .ca = options.tls_ca,
                 .certificate = options.tls_certificate,
                 .key = options.tls_key,
                 .server_name = options.tls_server_name};
  for (const std::string& text : options.servers) {
    const auto address = parse_nats_address(text);
    // Not shown: it may hold a password.
    require(address.has_value(), R"(servers must be like "nats://host:4222"; who we are is said by user, token, …)");
    servers.servers.push_back(address->server);
    servers.tls.on = servers.tls.on || address->tls;
  }
  require(!servers.servers.empty(), R"(servers is missing; as in "nats://127.0.0.1:4222")");
  require(options.tls_certificate.empty() == options.tls_key.empty(), "a certificate and its key go together");
  servers.login = login_of(options);
  servers.connection_name = "waybill " + options.durable;
  servers.inbox_prefix = options.inbox_prefix;
  servers.connect_timeout = options.connect_timeout;
  servers.heartbeat = options.heartbeat;
  return servers;
}

}  // namespace

std::unique_ptr<MessageSource> nats_source(NatsSourceOptions options, Log log) {
  check(options);
  struct Setup {
    NatsSourceOptions options{};
    NatsServers servers{};
    std::atomic<bool> was_there{false};  // the consumer
  };
  const auto setup = std::make_shared<Setup>();
  setup->servers = servers_of(options);
  setup->options = std::move(options);
  return std::make_unique<consume::LinkSource>(
      consume::LinkOptions{.name = fmt::format("{}/{}", setup->options.stream, setup->options.durable),
                           .hosts = setup->servers.servers.size(),
                           .connect_timeout = setup->options.connect_timeout,
                           .reconnect_max = setup->options.reconnect_max},
      [setup](std::size_t host, const net::Patience& patience, Steady deadline) {
        // One that is gone is not made again: it would begin from the start of the stream.
        auto link = std::make_unique<nats::NatsLink>(setup->options, setup->servers, setup->servers.servers[host],
                                                     !setup->was_there, patience, deadline);
        setup->was_there = true;
        return link;
      },
      std::move(log));
}

}  // namespace waybill
