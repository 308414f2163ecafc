#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "waybill/error.h"

#include "app/commands.h"
#include "app/terminal.h"
#include "app/wiring.h"
#include "base/json_text.h"

namespace waybill::app {
namespace {

constexpr std::string_view text_before_store =
    R"(# Waybill: where events rest, and where they go. All keys and their defaults: waybill config show

# "postgresql://user@host/database", or "sqlite:FILE" for a file that needs no server. On PostgreSQL the user has the role
# waybill_relay; 'waybill migrate' runs as the owner of the tables (docs/postgresql.md).
# A password belongs into ~/.pgpass, a file (store_file = "…") or the environment ("${env:NAME}").
)";

constexpr std::string_view text_after_store = R"(
# How often an event that fails is tried, and how long to wait in between: random, doubling from first_delay to max_delay.
# retry = { attempts = 12, first_delay = "1s", max_delay = "10m" }

# log = { level = "info", format = "logfmt" }      # or "json"

# Each destination keeps its own progress under its name. It gets every event, unless `match` says less.
[destinations.log]
type = "file"
path = "events.jsonl"                              # one line of JSON for each event

# [destinations.screen]
# type = "stdout"
# match = { topic = ["order.*", "mail.*"] }        # also: type, tenant, aggregate_type
# start = "now"                                    # or "beginning": with the oldest event kept
)";

[[noreturn]] void cannot_write(const std::string& path, int error) {
  throw Error(Remedy::fix_config, fmt::format("{}: cannot write: {}", path, std::strerror(error)));
}

// All of it or nothing: a half-written configuration would be taken for one.
void write_new(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST)
    throw Error(Remedy::fix_config,
                fmt::format("{} exists and is left as it is; remove it first, or name another file", path));
  if (fd < 0) cannot_write(path, errno);
  const ssize_t written = ::write(fd, text.data(), text.size());
  const int error = written < 0 ? errno : ENOSPC;
  const bool whole = written == static_cast<ssize_t>(text.size());
  if (::close(fd) == 0 && whole) return;
  ::unlink(path.c_str());
  cannot_write(path, error);
}

}  // namespace

ExitCode init(const InitOptions& options) {
  if (const auto problem = store_url_problem(options.store); !problem.empty())
    throw Error(Remedy::fix_input, fmt::format("--store {}", problem));
  write_new(options.path,
            fmt::format("{}store = {}\n{}", text_before_store, json_string(options.store), text_after_store));
  note(fmt::format("wrote {}; next: waybill migrate, then waybill run", options.path));
  return ExitCode::ok;
}

}  // namespace waybill::app
