#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/log.h"
#include "waybill/relay.h"
#include "waybill/store.h"

#include "config/section.h"
#include "message/sink_setup.h"

namespace waybill::app {

struct Settings;

// Where the names of the configuration become adapters; wiring.cc alone knows which there are.

// Why `url` names no store; empty if it does.
std::string store_url_problem(const std::string& url);

// A store inside the application's own file, whose tables need no one's permission to be made.
bool is_embedded(const Settings& settings);

std::unique_ptr<Store> open_store(const Settings& settings, Log log);

// The stores there are, each with the newest version of its tables that this program knows.
struct SchemaVersion {
  std::string store{};
  int version = 0;
};
std::vector<SchemaVersion> schema_versions();

// The type of a destination that has no sink: it is served from the log.
inline constexpr std::string_view stream_type = "stream";

// The values that `type` may have in a destination. A type that this build lacks is among them: read_sink() refuses it
// and names the build option.
std::vector<std::string> destination_types();

// The types that this build can serve.
std::vector<std::string> built_in_destination_types();

// REQUIRES: `type` is one of destination_types(), and not stream_type.
SinkSetup read_sink(const std::string& type, config::Section& section, const RetryPolicy& retry);

}  // namespace waybill::app
