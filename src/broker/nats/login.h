#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "broker/nats/options.h"

namespace waybill::nats {

// What a server says about itself: when somebody connects, and when something changes.
struct ServerInfo {
  bool offers_tls = false;
  bool wants_tls = false;
  bool takes_headers = false;
  bool lame = false;            // It is about to stop.
  std::size_t max_payload = 0;  // With headers.
  std::string version{};        // "2.9.10"
  std::string nonce{};          // To be signed by whoever logs in with a key; empty if nobody does.

  // What is not said stays as it is. Throws Error(retry) for what is no INFO.
  void update(std::string_view json);
};

// Throws Error(fix_config) if we are not to talk to such a server.
void check_server(const ServerInfo& info, bool with_tls);

// How we log in: the line "CONNECT {…}". Reads the files that `options` names. Throws Error(fix_config), which holds no
// secret.
std::string connect_line(const NatsServers& options, const ServerInfo& info);

}  // namespace waybill::nats
