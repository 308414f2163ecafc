#include "relay/lane.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "model/key_hash.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

// After so many relays in a row have died here without getting anywhere, events are announced, one by one, for so long.
constexpr std::int32_t crashes_suspicious = 2;
constexpr std::size_t careful_events = 1'000;

std::chrono::milliseconds milliseconds_until(Steady time, Steady now) {
  return std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(time - now));
}

}  // namespace

Lane::Lane(const Opened& opened, std::uint32_t serial, Options options, Steady now)
    : lease_(opened.lease),
      serial_(serial),
      options_(options),
      in_doubt_until_(opened.in_doubt_until),
      careful_left_(opened.crashes >= crashes_suspicious ? careful_events : 0) {
  siding_.open(opened, options.since.value_or(now), now);
  siding_.announce_every(announces());
}

// --- Reading

void Lane::add(EventView& event, const Decision& decision) {
  const Position position = first_ + entries_.size();
  if (!decision.publish) {
    entries_.push_back({.event = &event, .state = State::finished});
    return;
  }
  // A scheduled event leaves its key's order: nothing waits for it, and it waits for nothing but its time.
  const bool scheduled = decision.due.has_value();
  entries_.push_back({.event = &event, .key = scheduled ? 0 : key_hash(event), .scheduled = scheduled});
  if (scheduled) {
    entries_.back().time = *decision.due;
    delayed_.push({*decision.due, position});
  } else {
    queue_behind_its_key(position);
  }
}

void Lane::queue_behind_its_key(Position position) {
  const std::uint64_t key = entry(position).key;
  if (key == 0) {
    if (!announces()) ready_.push_back(position);
    return;
  }
  const auto [place, first_of_key] = chains_.try_emplace(key, Chain{position, position});
  if (!first_of_key) {
    entry(place->second.last).next_of_key = position;
    place->second.last = position;
  } else if (!announces() && !siding_.blocks(key)) {
    ready_.push_back(position);
  }
}

void Lane::close_stretch(Chunk chunk) {
  bytes_ += chunk.bytes;
  stretches_.push_back(std::make_shared<Stretch>(Stretch{.chunk = std::move(chunk), .end = first_ + entries_.size()}));
  settle_prefix({}, false);
}

std::vector<Wanted> Lane::wanted(int events_max) {
  return siding_.wanted(lease_.shard, events_max);
}

void Lane::take_in(const Fetched& fetched, std::span<const Wanted> wanted, Steady now) {
  for (const Fetched::Item& item : fetched.items)
    if (item.event.shard == lease_.shard) siding_.take_in(item, fetched.memory, now);
  const auto next_due = fetched.next_due.find(lease_.shard);
  flow_again(siding_.taken_in(
      lease_.shard, wanted, next_due == fetched.next_due.end() ? std::nullopt : std::optional(now + next_due->second)));
}

// --- Handing out

std::optional<Lane::Position> Lane::next(Steady now, bool fresh_first) {
  if (const auto number = fresh_first && !ready_.empty() ? std::nullopt : siding_.next()) {
    Undelivered& row = siding_.item(*number).row;
    if (row.sending == Undelivered::Sending::no) ++row.attempts;
    return in_siding | *number;
  }
  if (ready_.empty()) return std::nullopt;
  const Position position = ready_.front();
  ready_.pop_front();
  Entry& next = entry(position);
  WAYBILL_ASSERT(next.state == State::waiting);
  next.state = State::under_way;
  next.time = now;
  ++next.attempts;
  ++under_way_;
  return position;
}

std::optional<Lane::Position> Lane::next_alone() {
  const auto number = siding_.next_alone();
  return number ? std::optional(in_siding | *number) : std::nullopt;
}

std::optional<Lane::Position> Lane::next_suspect() {
  const auto number = siding_.next_suspect();
  return number ? std::optional(in_siding | *number) : std::nullopt;
}

// REQUIRES: the event is not in the lane any more.
Siding::Number Lane::number_of(Position position) const {
  return (position & in_siding) != 0 ? position ^ in_siding : passed_.at(position);
}

EventView& Lane::event(Position position) {
  return in_lane(position) ? *entry(position).event : siding_.item(number_of(position)).event;
}

Undelivered Lane::row(Position position) {
  if (!in_lane(position)) {
    const Siding::Item& item = siding_.item(number_of(position));
    Undelivered row = item.row;
    row.in_doubt = row.in_doubt || in_doubt(item.event);
    return row;
  }
  const Entry& here = entry(position);
  return {.seq = here.event->seq,
          .key = here.key,
          .blocks = here.key != 0,
          .attempts = here.attempts,
          .in_doubt = here.in_doubt || in_doubt(*here.event)};
}

bool Lane::missing(Position position) {
  return !in_lane(position) && siding_.item(number_of(position)).missing;
}

void Lane::keep(Position position, std::shared_ptr<const void> memory) {
  if (in_lane(position)) {
    entry(position).payload = std::move(memory);
    bytes_ += event(position).payload.size();
  } else {
    siding_.keep(number_of(position), std::move(memory));
  }
}

// --- Outcomes

void Lane::finish(Position position) {
  if (!in_lane(position)) {
    siding_.finish(number_of(position));
    answered(position);
    return;
  }
  Entry& done = entry(position);
  WAYBILL_ASSERT(done.state == State::under_way);
  done.state = State::finished;
  --under_way_;
  delivered_end_ = std::max(delivered_end_, position + 1);
  if (done.payload) {
    bytes_ -= done.event->payload.size();
    done.payload.reset();
  }
  unchain(done);
  if (done.next_of_key != none && !abandoned_) ready_.push_back(done.next_of_key);
  if (position == first_) settle_prefix({}, false);
}

void Lane::again_first(Position position) {
  if (!in_lane(position)) {
    siding_.again_first(number_of(position));
    passed_.erase(position);  // It goes by its new name from now on.
    return;
  }
  Entry& again = entry(position);
  again.state = State::waiting;
  --again.attempts;
  --under_way_;
  if (!abandoned_) ready_.push_front(position);
}

void Lane::put_back(Position position, const Undelivered& row, Steady now) {
  if (!in_lane(position)) {
    siding_.put_back(number_of(position), row, now);
    answered(position);
    return;
  }
  Entry& back = entry(position);
  WAYBILL_ASSERT(back.state == State::under_way);
  back.state = State::put_back;
  back.attempts = row.attempts;
  back.in_doubt = row.in_doubt;
  --under_way_;
  back.time = now + row.wait;
  put_back_[position] = row;
}

// Those of the key that are still in the lane are buried when the cursor comes to them.
void Lane::bury_key(std::uint64_t key) {
  siding_.bury_key(key);
  const auto chain = chains_.find(key);
  if (chain == chains_.end()) return;
  for (Position position = chain->second.first; position != none; position = entry(position).next_of_key) {
    Entry& each = entry(position);
    if (each.state != State::waiting) continue;
    each.state = State::put_back;
    put_back_[position] = {.seq = each.event->seq,
                           .key = key,
                           .standing = Standing::dead,
                           .attempts = each.attempts,
                           .error = "buried with an earlier event of its key"};
  }
}

// An event of the siding has its answer.
void Lane::answered(Position position) {
  passed_.erase(position);
  if (announced_.erase(position) == 0 || careful_left_ == 0) return;
  if (--careful_left_ == 0 && !options_.announce) be_careful_no_more();
}

void Lane::be_careful_no_more() {
  siding_.announce_every(false);
  for (Position position = first_; position < first_ + entries_.size(); ++position) {
    const Entry& each = entry(position);
    if (each.state != State::waiting || each.scheduled) continue;
    const auto chain = chains_.find(each.key);
    if (each.key == 0 || (chain->second.first == position && !siding_.blocks(each.key))) ready_.push_back(position);
  }
}

std::optional<Steady> Lane::release_due(Steady now) {
  while (!delayed_.empty() && delayed_.top().time <= now) {
    const Position position = delayed_.top().position;
    delayed_.pop();
    if (!in_lane(position)) continue;
    Entry& due = entry(position);
    if (due.state == State::waiting && std::exchange(due.scheduled, false) && !announces()) ready_.push_back(position);
  }
  siding_.want_due(now);
  std::optional<Steady> next = siding_.next_due();
  const auto look_at = [&](Steady time) { next = std::min(next.value_or(time), time); };
  if (!delayed_.empty()) look_at(delayed_.top().time);
  if (const auto time = first_passable_at(); time && *time > now) look_at(*time);
  return next;
}

// --- Settling

bool Lane::has_room(std::uint64_t key) const {
  return key == 0 || abandoned_ ||
         (siding_.events_of(key) < options_.blocked_per_key_max && siding_.events() < options_.blocked_max);
}

// When the cursor may pass the first event by the time alone, if it may.
std::optional<Steady> Lane::first_passable_at() const {
  if (entries_.empty()) return std::nullopt;
  const Entry& first = entries_.front();
  if (first.state == State::under_way) return first.time + options_.slow;
  if (first.state == State::put_back && waits(put_back_.at(first_).standing)) return first.time;
  return std::nullopt;
}

// A retry goes by way of the siding, where it is announced. So when it is due it is passed even at the limit: nothing
// else would free the shard.
bool Lane::can_pass(Steady now) const {
  if (entries_.empty()) return false;
  const Entry& first = entries_.front();
  switch (first.state) {
    case State::finished:
      return false;
    case State::put_back:
      return !put_back_.at(first_).blocks || has_room(first.key) ||
             (waits(put_back_.at(first_).standing) && first.time <= now);
    case State::under_way:
      return now - first.time >= options_.slow && has_room(first.key);
    case State::waiting:
      if (abandoned_) return first_ < delivered_end_;
      if (first.scheduled) return true;
      if (siding_.blocks(first.key)) return !siding_.about_to_free(first.key) && has_room(first.key);
      return announces() && announced_.size() < (careful_left_ > 0 ? 1 : options_.announced_max);
  }
  return false;
}

// REQUIRES: can_pass()
void Lane::pass_first(Steady now) {
  Entry& first = entries_.front();
  Undelivered row = this->row(first_);
  switch (first.state) {
    case State::put_back:
      row = std::move(put_back_.at(first_));
      row.wait = milliseconds_until(first.time, now);
      siding_.add(row, now);
      put_back_.erase(first_);
      break;
    case State::under_way:
      row.standing = Standing::retrying;
      passed_[first_] = siding_.add_under_way(item_of(first, row));
      --under_way_;
      break;
    case State::waiting:
      if (first.scheduled) {
        row.standing = Standing::scheduled;
        row.wait = milliseconds_until(first.time, now);
        siding_.add(row, now);
      } else if (siding_.blocks(first.key)) {
        row.standing = Standing::blocked;
        siding_.add(row, now);
      } else if (abandoned_) {
        siding_.add(row, now);
      } else {
        ++row.attempts;
        row.sending = Undelivered::Sending::yes;
        announced_.insert(in_siding | siding_.add_announced(item_of(first, row)));
      }
      break;
    case State::finished:
      break;
  }
  unchain(first);
}

// The event leaves its place in its key's order.
void Lane::unchain(const Entry& leaving) {
  if (leaving.key == 0) return;
  const auto chain = chains_.find(leaving.key);
  WAYBILL_ASSERT(chain != chains_.end());
  chain->second.first = leaving.next_of_key;
  if (leaving.next_of_key == none) chains_.erase(chain);
}

// REQUIRES: the event is the first.
Siding::Item Lane::item_of(const Entry& first, Undelivered row) const {
  struct Memory {
    std::shared_ptr<const Stretch> stretch;
    std::shared_ptr<const void> payload;
  };
  return {.event = *first.event,
          .row = std::move(row),
          .memory = std::make_shared<Memory>(Memory{stretches_.front(), first.payload})};
}

void Lane::settle_prefix(Steady now, bool passing) {
  while (!stretches_.empty()) {
    const Stretch& stretch = *stretches_.front();
    while (first_ < stretch.end) {
      if (entries_.front().state != State::finished) {
        if (!passing || !can_pass(now)) return;
        pass_first(now);
      }
      settled_.window = stretch.chunk.window;
      settled_.seq = entries_.front().event->seq;
      settled_.window_done = false;
      ++settled_.count;
      moved_ = true;
      if (entries_.front().payload) bytes_ -= entries_.front().event->payload.size();
      entries_.pop_front();
      ++first_;
    }
    if (stretch.chunk.ends_window) {
      settled_.window = stretch.chunk.window;
      settled_.window_done = true;
      moved_ = true;
    }
    bytes_ -= stretch.chunk.bytes;
    stretches_.pop_front();
  }
}

Lane::Urgency Lane::urgency(Steady now) const {
  const bool passing = can_pass(now);
  if (siding_.to_be_told_at_once() || (passing && announces())) return Urgency::at_once;
  if (passing || siding_.to_be_told() || settled_.count > 0) return Urgency::soon;
  return moved_ ? Urgency::whenever : Urgency::none;
}

std::optional<Settlement> Lane::settle(Steady now) {
  settle_prefix(now, true);
  if (!moved_ && !siding_.to_be_told()) return std::nullopt;
  Settlement settlement;
  if (moved_) settlement = settled_;
  settlement.shard = lease_.shard;
  settlement.term = lease_.term;
  siding_.tell(settlement);
  return settlement;
}

void Lane::saved() {
  settled_.count = 0;
  moved_ = false;
  flow_again(siding_.saved());
}

void Lane::flow_again(std::span<const std::uint64_t> keys) {
  for (const std::uint64_t key : keys) {
    const auto chain = chains_.find(key);
    if (chain == chains_.end() || announces() || abandoned_) continue;
    if (entry(chain->second.first).state == State::waiting) ready_.push_back(chain->second.first);
  }
}

bool Lane::at_limit() const {
  return !entries_.empty() && !has_room(entries_.front().key);
}

void Lane::abandon_rest() {
  abandoned_ = true;
  ready_.clear();
  delayed_ = {};
  siding_.abandon_rest();
}

}  // namespace waybill
