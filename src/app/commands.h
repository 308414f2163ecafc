#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/exit_code.h"
#include "config/config.h"

// One function per command; each is in the file of its name, or of its first word; pause, resume and rewind are in
// destinations.cc. All of them throw Error for what ends them; data
// goes to the standard output, everything else to the standard error output.
namespace waybill::app {

using Sources = config::Sources;

struct InitOptions {
  std::string path = "waybill.toml";
  std::string store = "sqlite:waybill.db";
};
ExitCode init(const InitOptions& options);

struct MigrateOptions {
  bool print = false;
};
ExitCode migrate(const Sources& sources, const MigrateOptions& options);

struct RunOptions {
  bool migrate = false;
  bool once = false;
  bool no_wait = false;   // A store that is away at the start is an error.
  std::string timeout{};  // "30s", of `once`; empty: none.
};
// Returns 128 + the signal's number if that ended it too early.
int run(const Sources& sources, const RunOptions& options);

struct DemoOptions {
  std::uint16_t port = 8780;  // 0: any free one.
  std::string duration{};     // "20s"; empty: until stopped.
};
// Ends with ok if both of its destinations have received events, or if it was stopped.
int demo(const DemoOptions& options);

// What the flags say of an event, as text; empty: not given.
struct EventFlags {
  std::string topic{}, type{}, aggregate{}, key{}, tenant{}, id{};
  std::optional<std::string> payload{};
  std::string payload_file{}, payload_bytes_file{}, content_type{}, metadata{};
  std::vector<std::string> headers{};  // name=value
  std::string routing_key{}, schema_id{}, dedup_key{};
  std::string occurred_at{}, not_before{}, expires_at{};
  std::optional<std::int64_t> version{};
  std::optional<std::int32_t> schema_version{}, attempts_max{};
};

struct EnqueueOptions {
  EventFlags event{};  // Without a topic: lines of the standard input.
  bool json = false;
};
ExitCode enqueue(const Sources& sources, const EnqueueOptions& options);

struct StatusOptions {
  bool json = false;
  bool check = false;
  bool all = false;       // Also relays that were not seen for a while.
  std::string age_max{};  // Empty: as the configuration says; the same below.
  std::optional<std::int64_t> pending_max{};
};
ExitCode status(const Sources& sources, const StatusOptions& options);

struct EventsListOptions {
  std::vector<std::string> standings{};  // None: events of the log, however they stand.
  std::string topic{}, type{}, tenant{}, aggregate{}, key{}, since{}, until{};
  std::optional<std::int64_t> before{};
  int limit = 50;
  bool payload = false;
  bool json = false;
  bool json_lines = false;
};
ExitCode events_list(const Sources& sources, const EventsListOptions& options);

struct EventsShowOptions {
  std::string id{};
  bool payload = false;
  bool json = false;
};
ExitCode events_show(const Sources& sources, const EventsShowOptions& options);

// Which undelivered events, as the flags say it; empty: any.
struct SelectionOptions {
  std::vector<std::string> ids{};
  std::string destination{}, topic{}, type{}, tenant{}, aggregate{}, key{}, error{}, since{}, until{};
  std::vector<std::string> standings{};
};

// What commands that change something have in common.
struct ActOptions {
  bool dry_run = false;
  bool yes = false;
  bool json = false;
  std::string by{};  // Empty: USER@host.
};

struct DeadListOptions {
  SelectionOptions selection{};
  std::optional<std::int64_t> before{};
  int limit = 50;
  bool payload = false;
  bool json = false;
  bool json_lines = false;
};
ExitCode dead_list(const Sources& sources, const DeadListOptions& options);
ExitCode dead_show(const Sources& sources, const EventsShowOptions& options);

struct DeadActOptions {
  SelectionOptions selection{};
  ActOptions act{};
  bool all = false;
  std::string rate{};
  std::string operation{};  // Empty: a new one.
};
// Each returns 128 + the signal's number if that ended it too early.
int dead_redrive(const Sources& sources, const DeadActOptions& options);
int dead_dismiss(const Sources& sources, const DeadActOptions& options);

struct DeadEditOptions {
  std::string id{}, destination{};
  std::optional<std::string> payload{}, headers{};
  std::string payload_file{};
  ActOptions act{};
};
ExitCode dead_edit(const Sources& sources, const DeadEditOptions& options);

struct BlockedOptions {
  std::string destination{};
  int limit = 50;
  bool json = false;
};
ExitCode blocked(const Sources& sources, const BlockedOptions& options);

struct DestinationActOptions {
  std::string destination{};
  ActOptions act{};
};
ExitCode pause(const Sources& sources, const DestinationActOptions& options);
ExitCode resume(const Sources& sources, const DestinationActOptions& options);
ExitCode destinations_forget(const Sources& sources, const DestinationActOptions& options);

struct RewindOptions {
  std::string destination{}, to{}, event{};
  bool beginning = false;
  ActOptions act{};
};
ExitCode rewind(const Sources& sources, const RewindOptions& options);

struct DestinationsListOptions {
  bool json = false;
};
ExitCode destinations_list(const Sources& sources, const DestinationsListOptions& options);

struct OperationsOptions {
  int limit = 50;
  bool json = false;
};
ExitCode operations(const Sources& sources, const OperationsOptions& options);

struct CleanCommandOptions {
  bool dry_run = false;
  bool json = false;
};
// Returns 128 + the signal's number if that ended it too early.
int clean(const Sources& sources, const CleanCommandOptions& options);

ExitCode anchor(const Sources& sources, const ActOptions& options);

struct RouteTestOptions {
  EventFlags event{};  // Without a topic: a line of the standard input,
  std::string id{};    // or an event of the store.
  bool body = false;
  bool json = false;
};
ExitCode route_test(const Sources& sources, const RouteTestOptions& options);

struct ConfigOptions {
  bool origin = false;
  bool json = false;
};
ExitCode config_check(const Sources& sources, const ConfigOptions& options);
ExitCode config_show(const Sources& sources, const ConfigOptions& options);

struct DoctorOptions {
  bool json = false;
};
ExitCode doctor(const Sources& sources, const DoctorOptions& options);

struct VersionOptions {
  bool json = false;
};
ExitCode version(const VersionOptions& options);

}  // namespace waybill::app
