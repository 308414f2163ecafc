#include "relay/lane.h"

#include <algorithm>

#include "base/assert.h"
#include "model/key_hash.h"

namespace waybill {

void Lane::add(EventView& event, std::optional<Steady> due) {
  const Position position = first_ + entries_.size();
  // A scheduled event leaves its key's order: nothing waits for it, and it waits for nothing but its time.
  entries_.push_back({.event = &event, .key = due ? 0 : key_hash(event)});
  if (due) {
    delayed_.push({*due, position});
  } else {
    queue_behind_its_key(position);
  }
}

void Lane::add_skipped(EventView& event) {
  entries_.push_back({.event = &event, .state = State::finished});
}

void Lane::queue_behind_its_key(Position position) {
  const std::uint64_t key = entry(position).key;
  if (key == 0) {
    ready_.push_back(position);
    return;
  }
  const auto [place, first_of_key] = last_of_key_.try_emplace(key, position);
  if (first_of_key) {
    ready_.push_back(position);
  } else {
    entry(place->second).next_of_key = position;
    place->second = position;
  }
}

void Lane::close_stretch(Chunk chunk) {
  bytes_ += chunk.bytes;
  stretches_.push_back({.chunk = std::move(chunk), .end = first_ + entries_.size(), .kept = {}});
  settle_prefix();
}

std::optional<Lane::Position> Lane::next() {
  if (ready_.empty()) return std::nullopt;
  const Position position = ready_.front();
  ready_.pop_front();
  WAYBILL_ASSERT(entry(position).state == State::waiting);
  entry(position).state = State::under_way;
  ++under_way_;
  return position;
}

void Lane::keep(Position position, std::shared_ptr<const void> memory) {
  const auto stretch = std::find_if(stretches_.begin(), stretches_.end(),
                                    [&](const Stretch& candidate) { return position < candidate.end; });
  WAYBILL_ASSERT(stretch != stretches_.end());
  stretch->kept.push_back(std::move(memory));
  stretch->chunk.bytes += event(position).payload.size();
  bytes_ += event(position).payload.size();
}

void Lane::finish(Position position) {
  Entry& done = entry(position);
  WAYBILL_ASSERT(done.state == State::under_way);
  done.state = State::finished;
  --under_way_;
  if (done.next_of_key != none) {
    ready_.push_back(done.next_of_key);
  } else if (done.key != 0) {
    last_of_key_.erase(done.key);
  }
  if (position == first_) settle_prefix();
}

int Lane::fail(Position position) {
  Entry& failed = entry(position);
  WAYBILL_ASSERT(failed.state == State::under_way);
  return ++failed.failures;
}

void Lane::again_at(Position position, Steady time) {
  entry(position).state = State::waiting;
  --under_way_;
  delayed_.push({time, position});
}

void Lane::again_first(Position position) {
  entry(position).state = State::waiting;
  --under_way_;
  ready_.push_front(position);
}

std::optional<Steady> Lane::release_due(Steady now) {
  while (!delayed_.empty() && delayed_.top().time <= now) {
    ready_.push_back(delayed_.top().position);
    delayed_.pop();
  }
  if (delayed_.empty()) return std::nullopt;
  return delayed_.top().time;
}

void Lane::settle_prefix() {
  while (!stretches_.empty()) {
    Stretch& stretch = stretches_.front();
    while (first_ < stretch.end && entries_.front().state == State::finished) {
      settled_.window = stretch.chunk.window;
      settled_.seq = entries_.front().event->seq;
      settled_.window_done = false;
      ++settled_.count;
      moved_ = true;
      entries_.pop_front();
      ++first_;
    }
    if (first_ < stretch.end) return;
    if (stretch.chunk.ends_window) {
      settled_.window = stretch.chunk.window;
      settled_.window_done = true;
      moved_ = true;
    }
    bytes_ -= stretch.chunk.bytes;
    stretches_.pop_front();
  }
}

std::optional<Settlement> Lane::progress() const {
  if (!moved_) return std::nullopt;
  Settlement settlement = settled_;
  settlement.shard = lease_.shard;
  settlement.term = lease_.term;
  return settlement;
}

void Lane::saved() {
  settled_.count = 0;
  moved_ = false;
}

void Lane::abandon_rest() {
  ready_.clear();
  delayed_ = {};
  last_of_key_.clear();
  for (Entry& entry : entries_) entry.next_of_key = none;
}

}  // namespace waybill
