#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "waybill/log.h"
#include "waybill/postgres.h"
#include "waybill/relay.h"
#include "waybill/store.h"

#include "app/wiring.h"
#include "config/config.h"
#include "upkeep/alerts.h"
#include "upkeep/caretaker.h"

namespace waybill::app {

struct Destination {
  std::string type{};
  DestinationOptions options{};
  SinkSetup sink{};            // None to make: a stream, which clients read from the log by themselves.
  std::string stream_token{};  // What clients of that stream must show; empty: nothing.
};

// Where metrics and streams are served; loopback only.
struct Listen {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8780;
  bool off = false;
  bool given = false;  // Somebody has set it, and so counts on it.

  friend bool operator==(const Listen& a, const Listen& b) {
    return a.off == b.off && (a.off || (a.address == b.address && a.port == b.port));
  }
};

// Everything the configuration says, checked.
struct Settings {
  std::string store{};  // May hold a password: show it by Store::describe() only.
  std::string schema = "waybill";
  int shards = 16;
  Failover failover = Failover::stop;
  std::optional<std::chrono::hours> retention{24 * 7};  // None: events are kept for ever.
  AlertLimits alerts{};
  LogLevel log_level = LogLevel::info;
  LogFormat log_format = LogFormat::logfmt;
  Listen listen{};
  bool core_dumps = false;
  RelayOptions relay{};
  CaretakerOptions caretaker{};
  std::vector<Destination> destinations{};
};

// The names of the destinations that relays serve: all but streams.
std::vector<std::string> served_destinations(const Settings& settings);

// Reads every key. Throws Error(fix_config) with one line per problem.
Settings read_settings(config::Config& config);

}  // namespace waybill::app
