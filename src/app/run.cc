#include <memory>
#include <vector>

#include <fmt/format.h>

#include "waybill/error.h"
#include "waybill/relay.h"

#include "app/commands.h"
#include "app/session.h"
#include "app/signals.h"
#include "http/server.h"
#include "sink/stream/event_stream.h"

namespace waybill::app {
namespace {

void prepare_schema(Store& store, bool may_migrate, const Log& log) {
  if (may_migrate)
    for (const int version : store.schema()->migrate())
      log.info("migrated", {{"store", store.describe()}, {"version", fmt::format("{}", version)}});
  require_schema(store);
}

void log_counts(const Relay& relay, const Settings& settings, const Log& log) {
  for (const auto& destination : settings.destinations) {
    if (!destination.make_sink) continue;
    const RelayCounts counts = relay.counts(destination.options.name);
    log.info("done", {{"destination", destination.options.name},
                      {"delivered", fmt::format("{}", counts.delivered)},
                      {"skipped", fmt::format("{}", counts.skipped)},
                      {"failed", fmt::format("{}", counts.failed)}});
  }
}

// The streams of the configuration, served as long as this lives; without any, nothing is listened on.
class Streams {
 public:
  Streams(const Settings& settings, Store& store, const Log& log) {
    for (const auto& destination : settings.destinations) {
      if (destination.make_sink) continue;
      if (!server_)
        server_ = std::make_unique<http::Server>(
            http::ServerOptions{.address = settings.listen.address, .port = settings.listen.port}, log);
      streams_.push_back(std::make_unique<EventStream>(
          StreamOptions{.name = destination.options.name, .match = destination.options.match},
          [&store] { return store.follow(); }, log));
      streams_.back()->add_to(*server_);
      log.info("serving a stream", {{"url", fmt::format("{}stream/{}", server_->url(), destination.options.name)}});
    }
    if (server_) server_->start();
  }

 private:
  std::unique_ptr<http::Server> server_;
  std::vector<std::unique_ptr<EventStream>> streams_;
};

}  // namespace

int run(const Sources& sources, const RunOptions& options) {
  const Signals signals;
  const Settings settings = load_settings(sources);
  if (settings.destinations.empty())
    throw Error(Remedy::fix_config, "there is no destination; add a [destinations.NAME] to the configuration");
  const Log log = stderr_log(settings.log_level, settings.log_format);
  const auto store = open_store(settings, log);
  prepare_schema(*store, options.migrate || is_embedded(settings), log);

  Relay relay(*store, settings.relay, log);
  for (const auto& destination : settings.destinations)
    if (destination.make_sink) relay.add(destination.options, destination.make_sink());
  const Streams streams(settings, *store, log);
  if (options.once) {
    relay.drain(signals.stop_token());
  } else {
    relay.run(signals.stop_token());
  }
  log_counts(relay, settings, log);
  // To be stopped is how `run` ends; `run --once` has not done what it was asked for.
  return options.once && signals.received() != 0 ? 128 + signals.received() : static_cast<int>(ExitCode::ok);
}

}  // namespace waybill::app
