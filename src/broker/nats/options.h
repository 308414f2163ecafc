#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "net/host.h"

namespace waybill {

// At most one way of saying who we are; none: whoever may come.
struct NatsLogin {
  std::string user{};
  std::string password{};
  std::string token{};
  std::string credentials_file{};  // A user's JWT and the seed of its key, as nsc writes it. Read at every connection.
  std::string nkey{};              // A user's public key,
  std::string nkey_seed_file{};    // and its seed. Read at every connection.
};

// Where the servers are, and who we are.
struct NatsServers {
  std::vector<net::Host> servers{};  // Tried in turn.
  NatsLogin login{};
  net::TlsOptions tls{};
  std::string connection_name = "waybill";           // What the server's people see.
  std::string inbox_prefix = "_INBOX";               // Where we are answered: what we must be allowed to subscribe to.
  std::chrono::milliseconds connect_timeout{5'000};  // For each server.
  std::chrono::milliseconds heartbeat{5'000};        // After twice this long without a sign the server is gone.
};

}  // namespace waybill
