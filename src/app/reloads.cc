#include "app/reloads.h"

#include <utility>

#include "waybill/error.h"

#include "app/session.h"

namespace waybill::app {

std::vector<std::string> keep_what_is_fixed(Settings& next, const Settings& current) {
  std::vector<std::string> kept;
  const auto keep = [&](const char* key, auto& value, const auto& fixed) {
    if (value == fixed) return;
    value = fixed;
    kept.emplace_back(key);
  };
  keep("store", next.store, current.store);
  keep("schema", next.schema, current.schema);
  keep("shards", next.shards, current.shards);
  keep("failover", next.failover, current.failover);
  keep("listen", next.listen, current.listen);
  return kept;
}

void require_destinations(const Settings& settings) {
  if (settings.destinations.empty())
    throw Error(Remedy::fix_config, "there is no destination; add a [destinations.NAME] to the configuration");
}

namespace {

void require_door(const Settings& settings) {
  for (const auto& destination : settings.destinations)
    if (settings.listen.off && !destination.make_sink)
      throw Error(Remedy::fix_config,
                  "destination '" + destination.options.name + "' is a stream, and listen is off until a restart");
}

}  // namespace

void Reloads::begin(const Settings& current, const Log& log) {
  const std::lock_guard lock(mutex_);
  current_ = current;
  log_ = log;
  if (std::exchange(asked_, false)) read();
}

std::stop_token Reloads::round() const {
  const std::lock_guard lock(mutex_);
  return stop_.get_token();
}

std::optional<Settings> Reloads::next() {
  const std::lock_guard lock(mutex_);
  if (ended_ || !next_) return std::nullopt;
  stop_ = {};
  current_ = std::exchange(next_, std::nullopt);
  return current_;
}

void Reloads::go_back_to(const Settings& current) {
  const std::lock_guard lock(mutex_);
  current_ = current;
}

void Reloads::ask() {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  if (current_) {
    read();
  } else {
    asked_ = true;
  }
}

void Reloads::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  notifier_.stopping();
  stop_.request_stop();
}

void Reloads::read() {
  notifier_.reloading();
  try {
    Settings next = load_settings(sources_);
    require_destinations(next);
    for (const std::string& key : keep_what_is_fixed(next, *current_))
      log_.error("a reload cannot change this key: its old value stays until a restart", {{"key", key}});
    require_door(next);
    log_.info("reloading the configuration");
    next_ = std::move(next);
    stop_.request_stop();
  } catch (const std::exception& error) {
    log_.error("the new configuration is wrong: the old one stays", {{"error", error.what()}});
    notifier_.ready();
  }
}

}  // namespace waybill::app
