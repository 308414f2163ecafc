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
    if (settings.listen.off && !destination.sink.make)
      throw Error(Remedy::fix_config,
                  "destination '" + destination.options.name + "' is a stream, and listen is off until a restart");
}

}  // namespace

void Reloads::begin(const Settings& current, const Log& log) {
  {
    const std::lock_guard lock(mutex_);
    current_ = current;
    log_ = log;
  }
  reading_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

std::optional<Settings> Reloads::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return next_ || ended_; });
  if (ended_) return std::nullopt;
  current_ = std::exchange(next_, std::nullopt);
  return current_;
}

void Reloads::go_back_to(const Settings& current) {
  const std::lock_guard lock(mutex_);
  current_ = current;
}

void Reloads::ask() {
  const std::lock_guard lock(mutex_);
  asked_ = true;
  changed_.notify_all();
}

void Reloads::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  notifier_.stopping();
  changed_.notify_all();
}

void Reloads::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return asked_ && !ended_; })) {
    asked_ = false;
    const Settings current = *current_;
    const Log log = log_;
    lock.unlock();  // A file may be slow; whoever ends the program does not wait for it.
    auto next = read(current, log);
    lock.lock();
    if (!next || ended_) continue;
    next_ = std::move(next);
    changed_.notify_all();
  }
}

// Nothing if the configuration is wrong.
std::optional<Settings> Reloads::read(const Settings& current, const Log& log) const {
  notifier_.reloading();
  try {
    Settings next = load_settings(sources_);
    require_destinations(next);
    for (const std::string& key : keep_what_is_fixed(next, current))
      log.error("a reload cannot change this key: its old value stays until a restart", {{"key", key}});
    require_door(next);
    log.info("reloading the configuration");
    return next;
  } catch (const std::exception& error) {
    log.error("the new configuration is wrong: the old one stays", {{"error", error.what()}});
    notifier_.ready();
    return std::nullopt;
  }
}

}  // namespace waybill::app
