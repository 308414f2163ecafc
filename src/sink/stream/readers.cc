#include "sink/stream/readers.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "waybill/error.h"

namespace waybill::stream {
namespace {

constexpr int page_events_max = 256;
constexpr std::size_t page_bytes_max = 1024 * 1024;
constexpr std::chrono::milliseconds after_outage{500};
// A follower is a connection to the store: not kept for somebody who may be behind again one day.
constexpr std::chrono::seconds follower_kept{10};

Steady in(std::chrono::milliseconds wait) {
  return std::chrono::steady_clock::now() + wait;
}

}  // namespace

std::chrono::milliseconds Pace::next() {
  return std::exchange(wait_, std::min(wait_ * 2, longest));
}

Reader::Reader(std::string name, Hub& hub, MakeFollower make, Match match, Log log)
    : name_(std::move(name)), hub_(hub), match_(std::move(match)), log_(std::move(log)), make_(std::move(make)) {}

Follower& Reader::follower() {
  if (!follower_) follower_ = make_();
  return *follower_;
}

void Reader::away(const std::string& why) {
  let_go();
  if (!std::exchange(away_, true)) log_.warning("stream: cannot read the log", {{"stream", name_}, {"why", why}});
}

void Reader::back() {
  if (std::exchange(away_, false)) log_.info("stream: reads the log again", {{"stream", name_}});
}

void HeadReader::run(const std::stop_token& stop) {
  while (!stop.stop_requested())
    if (hub_.head_waker().wait(step())) pace_.quicken();
}

Steady HeadReader::step() {
  if (hub_.rest()) {
    let_go();
    return Steady::max();
  }
  try {
    const auto next = read_on();
    back();
    return next;
  } catch (const Error& e) {
    if (e.remedy() == Remedy::fix_input) hub_.break_off();
    away(e.what());
  } catch (const std::exception& e) {
    away(e.what());
  }
  return in(after_outage);
}

Steady HeadReader::read_on() {
  const auto place = hub_.head();
  if (!place) {
    auto page = follower().read("now", page_events_max);
    if (!page.items.empty()) return Steady{};  // The log grew meanwhile; the place is after what nobody would get.
    hub_.start_head(std::move(page.place));
    return in(Pace::shortest);
  }
  const auto page = follower().read(*place, page_events_max);
  auto frames = frames_of(page, match_, page_bytes_max);
  const bool more = frames.more;
  hub_.publish(std::move(frames));
  if (!page.items.empty()) pace_.quicken();
  return more ? Steady{} : in(pace_.next());
}

void CatchUpReader::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) hub_.errand_waker().wait(step());
}

Steady CatchUpReader::step() {
  const auto errand = hub_.next_errand();
  if (!errand) {
    if (!idle_since_) idle_since_ = in({});
    const auto until = *idle_since_ + follower_kept;
    if (until > in({})) return until;
    let_go();
    return Steady::max();
  }
  idle_since_.reset();
  try {
    hub_.fulfil(*errand, frames_of(follower().read(errand->place, page_events_max), match_, errand->bytes_max));
    back();
    return Steady{};
  } catch (const Error& e) {
    if (e.remedy() == Remedy::fix_input) {
      hub_.refuse(*errand, e.what());
      return Steady{};
    }
    away(e.what());
  } catch (const std::exception& e) {
    away(e.what());
  }
  hub_.put_back(*errand);
  return in(after_outage);
}

}  // namespace waybill::stream
