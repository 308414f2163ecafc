#include "app/doors.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

namespace waybill::app {
namespace {

std::vector<StreamOptions> streams_of(const Settings& settings) {
  std::vector<StreamOptions> streams;
  for (const auto& destination : settings.destinations)
    if (!destination.sink.make)
      streams.push_back(
          {.name = destination.options.name, .match = destination.options.match, .token = destination.stream_token});
  return streams;
}

bool same(const std::vector<StreamOptions>& a, const std::vector<StreamOptions>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const StreamOptions& one, const StreamOptions& other) {
    return one.name == other.name && one.match == other.match && one.token == other.token;
  });
}

}  // namespace

void Doors::open(const Settings& settings) {
  auto wanted = streams_of(settings);
  if (std::exchange(opened_, true) && same(wanted, wanted_)) return;
  wanted_ = std::move(wanted);
  streams_.clear();
  server_.reset();
  if (settings.listen.off) return;
  try {
    open_server(settings);
  } catch (const Error& error) {
    if (settings.listen.given || !wanted_.empty()) throw;
    log_.warning("serving no metrics; set listen to another port, or to \"off\"", {{"error", error.what()}});
  }
}

void Doors::open_server(const Settings& settings) {
  server_ = std::make_unique<http::Server>(
      http::ServerOptions{.address = settings.listen.address, .port = port_ != 0 ? port_ : settings.listen.port}, log_);
  port_ = server_->port();
  add_metrics(
      *server_, [this] { return monitor_.metrics(); }, [this] { return monitor_.health(); });
  log_.info("serving metrics", {{"url", server_->url() + "metrics"}});
  for (const StreamOptions& options : wanted_) {
    streams_.push_back(std::make_unique<EventStream>(
        options, [this] { return store_.follow(); }, log_));
    streams_.back()->add_to(*server_);
    log_.info("serving a stream", {{"url", fmt::format("{}stream/{}", server_->url(), options.name)}});
  }
  server_->start();
}

}  // namespace waybill::app
