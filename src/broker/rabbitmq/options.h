#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "net/host.h"

namespace waybill {

// Where a broker is, and who we are.
struct RabbitmqServers {
  enum class Sasl { plain, external };

  std::string name{};              // Ours, for people.
  std::vector<net::Host> hosts{};  // Tried in turn.
  std::string vhost = "/";
  std::string user = "guest";
  std::string password{};
  Sasl sasl = Sasl::plain;
  net::TlsOptions tls{};
  std::chrono::milliseconds connect_timeout{5'000};  // For each host, until it can be used.
  std::chrono::seconds heartbeat{10};                // After twice this long without a sign the broker is gone.
};

}  // namespace waybill
