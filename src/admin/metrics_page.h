#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "waybill/relay.h"

#include "admin/figures.h"
#include "http/server.h"

namespace waybill {

// Everything that /metrics tells. docs/operations.md has each family with its meaning.
struct Metrics {
  std::string version{};
  RelayHealth health{};
  std::map<std::string, RelayCounts> destinations{};  // Those that the relay serves, or has served.
  std::optional<Figures::Snapshot> figures{};
  bool clean_failing = false;
  std::optional<std::size_t> held_back{};  // How many hold the log back; none: nobody has looked yet.
};

// As Prometheus reads it. Labels are names of the configuration and words of ours, so that there are never more of
// them than an operator has made: no reasons, no keys, no tenants.
std::string metrics_text(const Metrics& metrics);

// Adds "/metrics", and "/livez", which answers 200 while the relay's threads turn, else 503 and a line that says what
// does not. Both are called on the server's thread, so they must not wait for a store.
// REQUIRES: the server is not started yet.
void add_metrics(http::Server& server, std::function<Metrics()> metrics, std::function<RelayHealth()> health);

}  // namespace waybill
