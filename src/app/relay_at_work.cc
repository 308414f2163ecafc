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
                         const std::stop_token& stop, std::function<void()> failed)
    : relay_(std::move(relay)),
      settings_(std::move(settings)),
      monitor_(monitor),
      log_(std::move(log)),
      failed_(std::move(failed)),
      caretaker_(store, told_to(*relay_, settings_.caretaker), log_),
      on_stop_(stop, [this] { leave(); }) {
  monitor_.look_at(*relay_, caretaker_, served_destinations(settings_));
  thread_ = std::jthread([this] { run(); });
}

RelayAtWork::~RelayAtWork() {
  try {
    finish();
  } catch (const std::exception& error) {
    log_.error("the relay failed while it left", {{"error", error.what()}});
  }
  monitor_.look_away(*relay_);
}

void RelayAtWork::run() {
  try {
    std::jthread cleaning([this](const std::stop_token& stop) { caretaker_.run(stop); });
    const std::stop_callback end(leaving_.get_token(), [&] { cleaning.request_stop(); });
    relay_->run(leaving_.get_token());
    log_counts(*relay_, settings_, log_);
  } catch (...) {
    failure_ = std::current_exception();
  }
  gone_ = true;
  if (failure_ && !leaving_.stop_requested()) failed_();
}

void RelayAtWork::finish() {
  leave();
  if (thread_.joinable()) thread_.join();
  if (const auto failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
}

}  // namespace waybill::app
