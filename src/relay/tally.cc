#include "relay/tally.h"

#include <algorithm>

#include "waybill/store.h"

#include "base/json_text.h"

namespace waybill {
namespace {

using Kind = Outcome::Kind;

}  // namespace

std::string presentable(std::string text) {
  if (text.empty()) return "it is away, and does not say why";
  if (text.size() > trouble_bytes_max) {
    std::size_t end = trouble_bytes_max;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    text.resize(end);
  }
  if (!is_text(text))
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c < ' '; }, '?');
  return text;
}

void Tally::delivered(const EventView* event, Time now) noexcept {
  delivered_.add();
  if (!event) return;
  const Time from = event->not_before ? std::max(event->created_at, *event->not_before) : event->created_at;
  const auto took = std::max(now - from, std::chrono::microseconds(0));
  latency_.observe(took);
  lag_us_.store(took.count(), std::memory_order_relaxed);
}

void Tally::show(const Breaker& breaker, const Clock& clock) {
  if (breaker.closed()) {
    if (!shown_away_) return;
    shown_away_ = false;
    const std::lock_guard lock(mutex_);
    breaker_ = {};
    return;
  }
  if (shown_away_ && shown_next_try_ == breaker.next_try()) return;
  shown_away_ = true;
  shown_next_try_ = breaker.next_try();
  const auto left = std::chrono::floor<std::chrono::microseconds>(shown_next_try_ - clock.steady());
  const std::lock_guard lock(mutex_);
  breaker_ = {.open = true, .reason = presentable(breaker.reason()), .next_try = clock.now() + left};
}

RelayCounts Tally::counts(std::size_t leases) const {
  RelayCounts counts{.delivered = delivered_.value(),
                     .repeated = repeated_.value(),
                     .skipped = skipped_.value(),
                     .unmatched = unmatched_.value(),
                     .dead = dead_.value(),
                     .expired = expired_.value(),
                     .expired_unknown = expired_unknown_.value(),
                     .leases = leases};
  for (const Kind kind : {Kind::retry, Kind::rejected, Kind::unavailable, Kind::unknown})
    counts.failed += counts.failed_with[kind] = failed_[static_cast<std::size_t>(kind)].value();
  const auto took = latency_.counts();
  for (std::size_t i = 0; i < took.size(); ++i) {
    if (i < Histogram::bounds.size())
      counts.latency.buckets.push_back({.upto = Histogram::bounds[i], .count = took[i]});
    counts.latency.count += took[i];
  }
  counts.latency.sum = latency_.sum();
  counts.lag = std::chrono::microseconds(lag_us_.load(std::memory_order_relaxed));
  const std::lock_guard lock(mutex_);
  counts.breaker = breaker_;
  return counts;
}

std::string Tally::trouble() const {
  const std::lock_guard lock(mutex_);
  return breaker_.reason;
}

}  // namespace waybill
