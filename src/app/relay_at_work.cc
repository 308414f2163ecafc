#include "app/relay_at_work.h"

#include <utility>

#include <fmt/format.h>

namespace waybill::app {

void log_counts(const Relay& relay, const Settings& settings, const Log& log) {
  for (const auto& name : served_destinations(settings)) {
    const RelayCounts counts = relay.counts(name);
    log.info("done", {{"destination", name},
                      {"delivered", fmt::format("{}", counts.delivered)},
                      {"skipped", fmt::format("{}", counts.skipped)},
                      {"failed", fmt::format("{}", counts.failed)}});
  }
}

namespace {

CaretakerOptions told_to(Relay& relay, CaretakerOptions options) {
  options.tell = [&relay](const std::string& trouble) { relay.report(trouble); };
  return options;
}

}  // namespace

RelayAtWork::RelayAtWork(std::unique_ptr<Relay> relay, Settings settings, Store& store, Monitor& monitor, Log log,
                         std::stop_token round)
    : relay_(std::move(relay)),
      settings_(std::move(settings)),
      monitor_(monitor),
      log_(std::move(log)),
      round_(std::move(round)),
      caretaker_(store, told_to(*relay_, settings_.caretaker), log_) {
  monitor_.look_at(*relay_, caretaker_, served_destinations(settings_));
  thread_ = std::jthread([this] { run(); });
}

RelayAtWork::~RelayAtWork() {
  thread_.join();
  monitor_.look_away(*relay_);
  log_counts(*relay_, settings_, log_);
  try {
    rethrow();
  } catch (const std::exception& error) {
    log_.error("the relay failed while it left", {{"error", error.what()}});
  }
}

void RelayAtWork::run() {
  try {
    std::jthread cleaning([this](const std::stop_token& stop) { caretaker_.run(stop); });
    const std::stop_callback end(round_, [&] { cleaning.request_stop(); });
    relay_->run(round_);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  gone_ = true;
  changed_.notify_all();
}

void RelayAtWork::wait_for_end_of_round() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait(lock, round_, [this] { return gone_; })) return;
  lock.unlock();
  rethrow();
}

void RelayAtWork::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return gone_; });
  lock.unlock();
  rethrow();
}

// Once: then it has been told.
void RelayAtWork::rethrow() {
  std::unique_lock lock(mutex_);
  const auto failure = std::exchange(failure_, nullptr);
  lock.unlock();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace waybill::app
