#include "upkeep/caretaker.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/turns.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

// A relay that is started again and again should still clean.
constexpr std::chrono::milliseconds first_pause = 30s;
// Between two parts of a large cleaning: whoever writes to the store has it to himself meanwhile.
constexpr std::chrono::milliseconds part_pause = 50ms;
constexpr std::chrono::milliseconds failure_pause = 60s;

}  // namespace

Caretaker::Caretaker(Store& store, CaretakerOptions options, Log log, const Clock& clock)
    : store_(store), options_(std::move(options)), log_(std::move(log)), clock_(clock) {
  next_ = clock_.steady() + about(std::min(first_pause, options_.interval));
}

void Caretaker::run(const std::stop_token& stop) {
  take_turns(stop, clock_, [&] { return step(stop); });
}

Steady Caretaker::step(const std::stop_token& stop) {
  if (clock_.steady() < next_) return next_;
  std::chrono::milliseconds pause = part_pause;
  try {
    if (!clean(stop)) pause = about(options_.interval);
  } catch (const std::exception& error) {
    failed(error.what());
    pause = about(std::min(failure_pause, options_.interval));
  }
  return next_ = clock_.steady() + pause;
}

// True if there is more to do.
bool Caretaker::clean(const std::stop_token& stop) {
  if (!upkeep_) upkeep_ = store_.upkeep();
  CleanOptions options = options_.clean;
  options.stop = stop;
  const Cleaned part = upkeep_->clean(options);
  total_.events.value += part.events.value;
  total_.dead.value += part.dead.value;
  total_.dedup.value += part.dedup.value;
  total_.inbox.value += part.inbox.value;
  total_.idempotency.value += part.idempotency.value;
  if (failing_.exchange(false)) {
    log_.info("cleaning works again");
    if (options_.tell) options_.tell("");
  }
  if (part.more) return true;
  upkeep_.reset();
  total_.held_back = part.held_back;
  note(std::exchange(total_, {}));
  return false;
}

void Caretaker::note(const Cleaned& cleaned) {
  if (cleaned.removed() > 0)
    log_.info("cleaned", {{"events", fmt::format("{}", cleaned.events.value)},
                          {"dead", fmt::format("{}", cleaned.dead.value)},
                          {"dedup", fmt::format("{}", cleaned.dedup.value)},
                          {"inbox", fmt::format("{}", cleaned.inbox.value)},
                          {"idempotency", fmt::format("{}", cleaned.idempotency.value)}});
  const std::lock_guard lock(mutex_);
  if (!cleaned.held_back.empty() && held_back_ != cleaned.held_back)
    log_.warning("events that are old enough to go are still needed",
                 {{"by", fmt::format("{}", fmt::join(cleaned.held_back, "; "))}});
  held_back_ = cleaned.held_back;
}

void Caretaker::failed(const std::string& what) {
  upkeep_.reset();
  total_ = {};
  if (!failing_.exchange(true)) log_.error("cannot clean; will try again", {{"error", what}});
  if (options_.tell) options_.tell(fmt::format("cannot clean: {}", what));
}

std::chrono::milliseconds Caretaker::about(std::chrono::milliseconds time) {
  const auto tenth = time.count() / 10;
  return std::chrono::milliseconds(
      std::uniform_int_distribution<std::int64_t>(time.count() - tenth, time.count() + tenth)(random_));
}

std::optional<std::vector<std::string>> Caretaker::held_back() const {
  const std::lock_guard lock(mutex_);
  return held_back_;
}

}  // namespace waybill
