#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "waybill/log.h"

#include "app/notify.h"
#include "app/settings.h"
#include "config/config.h"

namespace waybill::app {

// Takes back in `next` what a running program cannot change: the store and where it listens. Returns the keys.
std::vector<std::string> keep_what_is_fixed(Settings& next, const Settings& current);

// Throws Error(fix_config) if there is nothing to run.
void require_destinations(const Settings& settings);

// The configurations that a program works with, one after the other. When asked to (SIGHUP), a thread of its own reads
// and checks the file. If it is bad, that is logged and nothing happens. begin() and next() are one thread's affair,
// the others anybody's, and wait for no file.
class Reloads {
 public:
  Reloads(config::Sources sources, const Notifier& notifier) : sources_(std::move(sources)), notifier_(notifier) {}

  // What was asked for before counts from here.
  void begin(const Settings& current, const Log& log);
  // Waits for the next configuration; none if the program is to end.
  std::optional<Settings> next();
  // The next one does not work: the program goes on as before.
  void go_back_to(const Settings& current);

  // Has the file read again.
  void ask();
  // The program is to end.
  void end();

 private:
  void run(const std::stop_token& stop);
  std::optional<Settings> read(const Settings& current, const Log& log) const;

  const config::Sources sources_;
  const Notifier& notifier_;

  mutable std::mutex mutex_;  // guards all that follows
  std::optional<Settings> current_;
  std::optional<Settings> next_;
  Log log_;
  bool asked_ = false;
  bool ended_ = false;
  std::condition_variable_any changed_;
  std::jthread reading_;  // Last: it uses the others.
};

}  // namespace waybill::app
