#include "consume/link_source.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/error_text.h"
#include "consume/delay.h"

namespace waybill::consume {
namespace {

using std::chrono::milliseconds;

constexpr unsigned round_bits = 40;  // below them, the link's own number
constexpr milliseconds delay_first{100};
constexpr milliseconds close_patience{1'000};
// A link that was up for so long was a good one: the next is tried at once.
constexpr std::chrono::seconds good_after{10};

Steady now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

LinkSource::LinkSource(LinkOptions options, OpenLink open, Log log)
    : options_(std::move(options)),
      open_(std::move(open)),
      log_(std::move(log)),
      patience_(waker_, [this] { return stopping_.load(); }) {}

LinkSource::~LinkSource() {
  close(now() + close_patience);
}

// --- The consumer's thread

MessageSource::Received LinkSource::receive(Steady deadline) {
  start();
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return woken_ || received_.lost || !received_.messages.empty() || !refused_.empty(); };
  if (deadline == Steady::max()) {
    changed_.wait(lock, ready);  // A wait until the end of time overflows.
  } else {
    changed_.wait_until(lock, deadline, ready);
  }
  woken_ = false;
  if (!refused_.empty()) throw Error(Remedy::fix_config, refused_);
  return std::exchange(received_, {});
}

void LinkSource::accept(std::uint64_t ticket) {
  settle({.ticket = ticket});
}

void LinkSource::reject(std::uint64_t ticket, const std::string& reason) {
  settle({.ticket = ticket, .rejected = reason});
}

void LinkSource::settle(Settled settled) {
  {
    const std::scoped_lock lock(mutex_);
    settled_.push_back(std::move(settled));
  }
  waker_.wake();
}

void LinkSource::wake() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void LinkSource::start() {
  if (thread_.joinable()) return;
  stopping_ = false;
  {
    const std::scoped_lock lock(mutex_);
    refused_.clear();
  }
  thread_ = std::thread([this] { run(); });
}

void LinkSource::close(Steady deadline) {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    close_by_ = deadline;
  }
  stopping_ = true;
  waker_.wake();
  thread_.join();
  const std::scoped_lock lock(mutex_);  // Somebody may be about to wake us still.
  received_ = {};
  settled_.clear();
  woken_ = false;
}

// --- Our thread

void LinkSource::run() {
  is_refused_ = false;
  while (!stopping_ && !is_refused_) {
    if (link_) {
      turn();
    } else {
      connect();
    }
  }
  if (link_) say_goodbye();
  away_ = true;
}

void LinkSource::say_goodbye() {
  Steady deadline;
  {
    const std::scoped_lock lock(mutex_);
    deadline = close_by_;
  }
  stopping_ = false;  // What calls off every wait must not call off this one.
  try {
    send_settled();
  } catch (const std::exception& error) {
    log_.warning("not everything could be acknowledged; it comes again",
                 {{"source", options_.name}, {"error", error_text(error)}});
  }
  link_->close(deadline);
  link_.reset();
}

void LinkSource::connect() {
  std::string troubles;
  bool refused = false;
  for (std::size_t i = 0; i < options_.hosts && !link_ && !stopping_; ++i) {
    try {
      link_ = open_(host_, patience_, now() + options_.connect_timeout);
    } catch (const std::exception& error) {
      const auto* ours = dynamic_cast<const Error*>(&error);
      refused = refused || (ours && ours->remedy() == Remedy::fix_config);
      troubles += troubles.empty() ? "" : "; ";
      troubles += error_text(error);
      host_ = (host_ + 1) % options_.hosts;
    }
  }
  if (link_) return linked();
  if (stopping_) return;
  if (refused && !let_in_) return refuse(troubles);
  log_.warning("no messages can be received", {{"source", options_.name}, {"error", troubles}});
  pause();
}

void LinkSource::linked() {
  ++round_;
  linked_ = now();
  keeps_rejected_ = link_->keeps_rejected();
  let_in_ = true;
  away_ = false;
  log_.info("messages are received", {{"source", options_.name}, {"broker", link_->where()}});
}

void LinkSource::refuse(const std::string& troubles) {
  is_refused_ = true;
  {
    const std::scoped_lock lock(mutex_);
    refused_ = troubles;
  }
  changed_.notify_all();
}

void LinkSource::pause() {
  ++failures_;
  const Steady until = now() + delay_after(failures_, delay_first, options_.reconnect_max);
  while (!stopping_ && now() < until) waker_.wait(until);
}

void LinkSource::turn() try {
  send_settled();
  link_->work(come_, now());
  hand_over();
  waker_.wait(link_->work_at(), link_->fd(), link_->waits_for_room());
} catch (const std::exception& error) {
  lost(error_text(error));
}

void LinkSource::send_settled() {
  std::vector<Settled> settled;
  {
    const std::scoped_lock lock(mutex_);
    settled.swap(settled_);
  }
  for (const Settled& one : settled) {
    if (one.ticket >> round_bits != round_) continue;  // It was lost, and comes again.
    const std::uint64_t number = one.ticket & ((std::uint64_t{1} << round_bits) - 1);
    if (one.rejected) {
      link_->reject(number, *one.rejected);
    } else {
      link_->accept(number);
    }
  }
}

void LinkSource::hand_over() {
  if (come_.empty()) return;
  for (Incoming& one : come_) {
    if (one.ticket >> round_bits != 0)
      throw Error(Remedy::retry,
                  fmt::format("{}: gives a message the number {}, which is none", link_->where(), one.ticket));
    one.ticket |= round_ << round_bits;
  }
  {
    const std::scoped_lock lock(mutex_);
    std::move(come_.begin(), come_.end(), std::back_inserter(received_.messages));
  }
  come_.clear();
  changed_.notify_all();
}

void LinkSource::lost(const std::string& reason) {
  link_.reset();
  come_.clear();
  away_ = true;
  host_ = (host_ + 1) % options_.hosts;
  {
    const std::scoped_lock lock(mutex_);
    received_.lost = true;
    received_.messages.clear();
  }
  changed_.notify_all();
  if (stopping_) return;
  log_.warning("the connection to the broker is over", {{"source", options_.name}, {"error", reason}});
  if (now() - linked_ >= good_after) failures_ = 0;
  pause();
}

}  // namespace waybill::consume
