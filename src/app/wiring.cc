#include "app/wiring.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "waybill/postgres.h"
#include "waybill/sqlite.h"

#include "app/settings.h"
#include "base/assert.h"
#include "model/event_json.h"
#include "sink/file/file_sink.h"
#ifdef WAYBILL_HAS_NATS
#include "sink/nats/settings.h"
#endif
#include "sink/null/null_sink.h"
#ifdef WAYBILL_HAS_RABBITMQ
#include "sink/rabbitmq/settings.h"
#endif

namespace waybill::app {
namespace {

constexpr std::string_view sqlite_scheme = "sqlite:";

bool is_postgres(const std::string& url) {
  return url.starts_with("postgresql://") || url.starts_with("postgres://");
}

// A line of JSON.
PreviewEvent preview_line(std::string address) {
  return [address = std::move(address)](const EventView& event) {
    Preview preview{.address = address};
    append_event_json(preview.message.body, event);
    preview.message.content_type = "application/json";
    return preview;
  };
}

SinkSetup read_file(config::Section& section) {
  FileSinkOptions options;
  options.path = section.text("path", "", "File that events are appended to, one line of JSON each");
  options.fsync = section.boolean("fsync", options.fsync, "Force every batch to disk before it counts");
  if (options.path.empty()) section.refuse("path", R"(is missing; name a file, as in path = "events.jsonl")");
  return {.make = [options](const Log&) { return file_sink(options); }, .preview = preview_line(options.path)};
}

SinkSetup read_stdout(config::Section&) {
  return {.make = [](const Log&) { return stdout_sink(); }, .preview = preview_line("the standard output")};
}

SinkSetup read_null(config::Section&) {
  return {.make = [](const Log&) { return null_sink(); }};
}

#ifdef WAYBILL_HAS_NATS
constexpr bool has_nats = true;
#else
constexpr bool has_nats = false;
#endif
#ifdef WAYBILL_HAS_RABBITMQ
constexpr bool has_rabbitmq = true;
#else
constexpr bool has_rabbitmq = false;
#endif

// A type that everybody knows, and this build has not.
[[maybe_unused]] SinkSetup refuse_absent(config::Section& section, std::string_view what, std::string_view option) {
  section.refuse(
      "type", fmt::format("this build has no {}: it was configured without it (-DWAYBILL_WITH_{}=OFF)", what, option));
  section.ignore_rest();
  return {};
}

#ifndef WAYBILL_HAS_NATS
SinkSetup read_nats(config::Section& section, std::chrono::milliseconds) {
  return refuse_absent(section, "NATS", "NATS");
}
#endif

#ifndef WAYBILL_HAS_RABBITMQ
SinkSetup read_rabbitmq(config::Section& section) {
  return refuse_absent(section, "RabbitMQ", "RABBITMQ");
}
#endif

struct DestinationType {
  std::string_view name{};
  SinkSetup (*read)(config::Section&) = nullptr;
  // Instead, where it matters how far apart two attempts of an event may be.
  SinkSetup (*read_with_gap)(config::Section&, std::chrono::milliseconds retry_gap) = nullptr;
  bool built_in = true;
};

// A new destination is one line here.
constexpr std::array types{
    DestinationType{"file", read_file},     DestinationType{"nats", nullptr, read_nats, has_nats},
    DestinationType{"null", read_null},     DestinationType{"rabbitmq", read_rabbitmq, nullptr, has_rabbitmq},
    DestinationType{"stdout", read_stdout},
};

}  // namespace

std::string store_url_problem(const std::string& url) {
  if (url.empty())
    return R"(is missing; set it to "postgresql://…" or "sqlite:FILE", or let 'waybill init' write a configuration)";
  if (is_postgres(url)) return {};
  if (!url.starts_with(sqlite_scheme)) return R"(must begin with "postgresql://" or "sqlite:")";
  const std::string path = url.substr(sqlite_scheme.size());
  if (path.empty()) return R"(names no file; write "sqlite:clinic.db")";
  if (path.starts_with("//") && !path.starts_with("///"))
    return R"(takes no host; write "sqlite:clinic.db" or "sqlite:/var/lib/clinic.db")";
  if (path == ":memory:") return "must be a file: what is only in memory is lost at the end";
  return {};
}

bool is_embedded(const Settings& settings) {
  return settings.store.starts_with(sqlite_scheme);
}

std::unique_ptr<Store> open_store(const Settings& settings, Log log) {
  if (is_embedded(settings)) {
    SqliteOptions options;
    options.path = settings.store.substr(sqlite_scheme.size());
    return sqlite_store(std::move(options), std::move(log));
  }
  return postgres_store({.url = settings.store,
                         .schema = settings.schema,
                         .shards = settings.shards,
                         .retention = settings.retention.value_or(*Settings{}.retention),
                         .failover = settings.failover},
                        std::move(log));
}

std::vector<SchemaVersion> schema_versions() {
  return {{"postgresql", postgres_schema_version}, {"sqlite", sqlite_schema_version}};
}

std::vector<std::string> destination_types() {
  std::vector<std::string> names;
  for (const auto& type : types) names.emplace_back(type.name);
  names.emplace_back(stream_type);
  return names;
}

std::vector<std::string> built_in_destination_types() {
  std::vector<std::string> names = destination_types();
  for (const auto& type : types)
    if (!type.built_in) std::erase(names, type.name);
  return names;
}

SinkSetup read_sink(const std::string& type, config::Section& section, const RetryPolicy& retry) {
  const auto known =
      std::find_if(types.begin(), types.end(), [&](const auto& candidate) { return candidate.name == type; });
  WAYBILL_ASSERT(known != types.end());
  return known->read ? known->read(section) : known->read_with_gap(section, retry.max_delay);
}

}  // namespace waybill::app
