#include "relay/siding.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "relay/trial.h"

namespace waybill {
namespace {

// Fetched at once of a key whose events are delivered one after the other.
constexpr int events_of_key_max = 100;

std::size_t bytes_of(const Siding::Item& item) {
  return sizeof(Siding::Item) + item.event.payload.size() + item.event.metadata.size() + item.event.headers.size();
}

}  // namespace

void Siding::open(const Opened& opened, Steady since, Steady now) {
  since_ = since;
  for (const BlockedKey& blocked : opened.blocked) {
    keys_[blocked.key] = {.events = blocked.events, .asked = true};
    events_ += blocked.events;
    if (blocked.wait) rest_until(now + *blocked.wait, blocked.key);
  }
  if (opened.next_due) rest_until(now + *opened.next_due, 0);
}

bool Siding::about_to_free(std::uint64_t number) const {
  const auto key = keys_.find(number);
  return key != keys_.end() && key->second.events == key->second.ended;
}

std::int64_t Siding::events_of(std::uint64_t number) const {
  const auto key = keys_.find(number);
  return key == keys_.end() ? 0 : key->second.events;
}

// --- From the lane

void Siding::add(const Undelivered& row, Steady now) {
  tell_row(row);
  if (row.key == 0) {
    if (waits(row.standing)) due_when_saved_.push_back({now + row.wait, 0});
    return;
  }
  Key& key = keys_[row.key];
  if (!row.blocks) return;  // An end: it blocks until it is saved.
  const bool first = key.events == key.ended;
  ++key.events;
  ++events_;
  if (first && waits(row.standing)) due_when_saved_.push_back({now + row.wait, row.key});
}

// Should we die before it is answered, it may have arrived.
Siding::Number Siding::add_under_way(Item item) {
  Undelivered row = item.row;
  row.in_doubt = true;
  tell_row(row);
  const Number number = admit(std::move(item));
  ++under_way_;
  return number;
}

Siding::Number Siding::add_announced(Item item) {
  WAYBILL_ASSERT(item.row.sending != Undelivered::Sending::no);
  tell_row(item.row);
  announcing_.push_back(admit(std::move(item)));
  return announcing_.back();
}

Siding::Number Siding::admit(Item item) {
  const Number number = ++last_number_;
  if (item.row.key == 0) {
    keyless_.insert(item.row.seq);
  } else {
    Key& key = keys_[item.row.key];
    WAYBILL_ASSERT(key.events == key.ended && key.fetched.empty());
    ++key.events;
    ++events_;
    key.fetched.push_back(number);
  }
  bytes_ += bytes_of(item);
  items_.emplace(number, std::move(item));
  return number;
}

// --- Fetching

void Siding::rest_until(Steady time, std::uint64_t key) {
  if (key == 0) {
    keyless_due_ = std::min(keyless_due_.value_or(time), time);
  } else {
    due_.push({time, key});
  }
}

void Siding::want_due(Steady now) {
  while (!in_control_.empty() && in_control_.begin()->first <= now) {
    doubtful_.push_back(in_control_.begin()->second);
    in_control_.erase(in_control_.begin());
  }
  if (on_trial() && now >= trial_end_) end_trial();
  while (!due_.empty() && due_.top().time <= now) {
    const std::uint64_t number = due_.top().key;
    due_.pop();
    const auto key = keys_.find(number);
    if (key == keys_.end() || !key->second.fetched.empty()) continue;
    key->second.flows = false;
    want(number);
  }
  if (keyless_due_ && *keyless_due_ <= now) {
    keyless_due_.reset();
    wanted_.push_back(0);
  }
}

void Siding::want(std::uint64_t number) {
  if (!abandoned_ && !std::exchange(keys_.at(number).wanted, true)) wanted_.push_back(number);
}

std::vector<Wanted> Siding::wanted(std::int32_t shard, int events_max) {
  std::vector<Wanted> list;
  while (!wanted_.empty() && events_max > 0) {
    const std::uint64_t number = wanted_.front();
    wanted_.pop_front();
    Wanted wanted{.shard = shard, .key = number, .events_max = std::min(events_max, events_of_key_max)};
    events_max -= wanted.events_max;
    if (number == 0) {
      wanted.events_max += static_cast<int>(keyless_.size());  // Those come again.
    } else {
      const auto key = keys_.find(number);
      if (key == keys_.end()) continue;
      key->second.asked = true;
      wanted.after = key->second.after;
      if (!key->second.flows) {
        events_max += wanted.events_max - 1;
        wanted.events_max = 1;
      }
    }
    list.push_back(wanted);
  }
  return list;
}

void Siding::take_in(const Fetched::Item& fetched, std::shared_ptr<const void> memory, Steady now) {
  const std::uint64_t number = fetched.row.key;
  if (number == 0 ? !keyless_.insert(fetched.row.seq).second : !keys_.contains(number)) return;
  const Number name = ++last_number_;
  Item& item =
      items_
          .emplace(
              name,
              Item{.event = fetched.event, .row = fetched.row, .missing = fetched.missing, .memory = std::move(memory)})
          .first->second;
  bytes_ += bytes_of(item);
  if (number == 0) {
    let_go(name);
  } else {
    if (item.row.wait.count() > 0) item.due = now + item.row.wait;
    keys_.at(number).fetched.push_back(name);
  }
}

std::vector<std::uint64_t> Siding::taken_in(std::int32_t shard, std::span<const Wanted> wanted,
                                            std::optional<Steady> next_due) {
  std::vector<std::uint64_t> freed;
  for (const Wanted& each : wanted) {
    const auto place = keys_.find(each.key);
    if (each.shard != shard || each.key == 0 || place == keys_.end()) continue;
    Key& key = place->second;
    key.wanted = false;
    if (!key.fetched.empty()) {
      count_at_least(key, key.ended + std::ssize(key.fetched));
      let_go(key.fetched.front());
    } else if (told_.contains(each.key)) {
      key.goes_on_when_saved = true;
    } else {
      events_ -= key.events;
      keys_.erase(place);
      freed.push_back(each.key);
    }
  }
  if (next_due) rest_until(*next_due, 0);
  return freed;
}

void Siding::count_at_least(Key& key, std::int64_t events) {
  const std::int64_t more = std::max<std::int64_t>(0, events - key.events);
  key.events += more;
  events_ += more;
}

// An attempt at an event that has failed before is announced: should it be what kills us, the next relay knows.
// What waits for a person, or for its time, stays where it is, and what is behind it, too.
void Siding::let_go(Number number) {
  Item& item = items_.at(number);
  if (abandoned_) return;
  if (!waits(item.row.standing)) {
    forget_fetched(keys_.at(item.row.key));
    return;
  }
  if (item.due) {
    rest_until(*item.due, item.row.key);
    forget_fetched(keys_.at(item.row.key));
    return;
  }
  if (item.row.sending != Undelivered::Sending::no || item.missing) {
    suspects_.push_back(number);
  } else if (item.row.crashes > 0) {
    in_control_.emplace(since_ + trial::control(item.row.crashes), number);
  } else if (announce_ || item.row.attempts > 0) {
    announce(number, Undelivered::Sending::yes);
  } else {
    ready_.push_back(number);
  }
}

void Siding::announce(Number number, Undelivered::Sending how) {
  Undelivered& row = items_.at(number).row;
  ++row.attempts;
  row.standing = Standing::retrying;
  row.sending = how;
  tell_row(row);
  announcing_.push_back(number);
}

void Siding::announce_alone(Steady now) {
  WAYBILL_ASSERT(!alone_ && !doubtful_.empty());
  alone_ = doubtful_.front();
  doubtful_.pop_front();
  const std::int32_t crashes = items_.at(*alone_).row.crashes;
  const bool counts = trial::counts(crashes, now - since_);
  announce(*alone_, counts ? Undelivered::Sending::on_trial : Undelivered::Sending::yes);
  trial_end_ = now + trial::length(crashes);
}

// The one on trial, announced or under way.
const Siding::Item* Siding::on_trial() const {
  const std::optional<Number> number = alone_ ? alone_ : alone_under_way_;
  if (!number) return nullptr;
  const Item& item = items_.at(*number);
  return item.row.sending == Undelivered::Sending::on_trial ? &item : nullptr;
}

// It stays alone, but if the relay dies now, that does not count against it.
void Siding::end_trial() {
  Undelivered& row = items_.at(alone_ ? *alone_ : *alone_under_way_).row;
  row.sending = Undelivered::Sending::yes;
  tell_row(row);
  alone_late_ = true;
}

std::optional<Siding::Number> Siding::next_alone() {
  if (!alone_ || std::ranges::find(announcing_, *alone_) != announcing_.end()) return std::nullopt;
  ++under_way_;
  alone_under_way_ = std::exchange(alone_, std::nullopt);
  return alone_under_way_;
}

void Siding::acquit() {
  if (alone_under_way_) take_back(items_.at(*alone_under_way_).row);
}

void Siding::go_on_with(std::uint64_t number) {
  Key& key = keys_.at(number);
  if (!key.fetched.empty()) {
    let_go(key.fetched.front());
  } else if (key.events > key.ended || !told_.contains(number)) {
    want(number);
  } else {
    key.goes_on_when_saved = true;
  }
}

void Siding::keep(Number number, std::shared_ptr<const void> memory) {
  Item& item = items_.at(number);
  bytes_ += item.event.payload.size();
  item.memory = std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
      std::move(item.memory), std::move(memory));
}

std::optional<Siding::Number> Siding::next() {
  if (ready_.empty() && !parked_.empty()) {
    const Number number = parked_.front();
    parked_.pop_front();
    let_go(number);
  }
  return next_of(ready_);
}

std::optional<Siding::Number> Siding::next_of(std::deque<Number>& queue) {
  if (queue.empty()) return std::nullopt;
  const Number number = queue.front();
  queue.pop_front();
  ++under_way_;
  return number;
}

// --- Outcomes

void Siding::not_under_way(Number number) {
  --under_way_;
  if (alone_under_way_ != number) return;
  alone_under_way_.reset();
  alone_over_ = true;
}

void Siding::finish(Number number) {
  not_under_way(number);
  const Undelivered row = items_.at(number).row;
  delivered_.push_back(row.seq);
  forget(number);
  if (row.key == 0) {
    keyless_leaving_.push_back(row.seq);
    return;
  }
  Key& key = keys_.at(row.key);
  told_.insert(row.key);
  ++key.ended;
  key.after = row.seq;
  key.flows = true;
  go_on_with(row.key);
}

void Siding::again_first(Number number) {
  const bool alone = alone_under_way_ == number;
  not_under_way(number);
  Undelivered& row = items_.at(number).row;
  if (row.sending == Undelivered::Sending::no) --row.attempts;
  if (abandoned_) {
    take_back(row);
  } else if (alone) {
    alone_ = number;
    alone_over_ = false;
  } else {
    ready_.push_front(number);
  }
}

// Should we die while nothing can be tried, it was no event's fault.
void Siding::park() {
  std::deque<Number> stay;
  for (const Number number : ready_) {
    Undelivered& row = items_.at(number).row;
    (row.sending == Undelivered::Sending::no ? stay : parked_).push_back(number);
    take_back(row);
  }
  ready_ = std::move(stay);
  if (!alone_) return;
  std::erase(announcing_, *alone_);
  take_back(items_.at(*alone_).row);
  doubtful_.push_front(*std::exchange(alone_, std::nullopt));
  alone_over_ = true;
}

// It was announced, and is not tried after all.
void Siding::take_back(Undelivered& row) {
  if (row.sending == Undelivered::Sending::no) return;
  --row.attempts;
  row.sending = Undelivered::Sending::no;
  tell_row(row);
}

void Siding::put_back(Number number, const Undelivered& row, Steady now) {
  not_under_way(number);
  tell_row(row);
  forget(number);
  if (row.key == 0) {
    keyless_leaving_.push_back(row.seq);
    if (waits(row.standing)) due_when_saved_.push_back({now + row.wait, 0});
    return;
  }
  Key& key = keys_.at(row.key);
  key.flows = false;
  if (!row.blocks) {
    ++key.ended;
    key.after = row.seq;
    key.goes_on_when_saved = true;
    return;
  }
  forget_fetched(key);
  if (waits(row.standing)) due_when_saved_.push_back({now + row.wait, row.key});
}

void Siding::bury_key(std::uint64_t number) {
  const auto key = keys_.find(number);
  if (key == keys_.end()) return;
  forget_fetched(key->second);
  key->second.ended = key->second.events;
  key->second.goes_on_when_saved = true;
  buried_keys_.push_back(number);
  told_.insert(number);
}

void Siding::forget(Number number) {
  const auto place = items_.find(number);
  bytes_ -= bytes_of(place->second);
  if (place->second.row.key != 0) {
    auto& fetched = keys_.at(place->second.row.key).fetched;
    WAYBILL_ASSERT(!fetched.empty() && fetched.front() == number);
    fetched.pop_front();
  }
  items_.erase(place);
}

void Siding::forget_fetched(Key& key) {
  while (!key.fetched.empty()) forget(key.fetched.front());
}

// --- Saving

void Siding::tell_row(const Undelivered& row) {
  rows_.push_back(row);
  if (row.key != 0) told_.insert(row.key);
}

void Siding::tell(Settlement& settlement) {
  // Of several rows of one event the last counts.
  std::set<std::int64_t> seen(delivered_.begin(), delivered_.end());
  for (auto row = rows_.rbegin(); row != rows_.rend(); ++row)
    if (seen.insert(row->seq).second) settlement.undelivered.push_back(std::move(*row));
  std::reverse(settlement.undelivered.begin(), settlement.undelivered.end());
  rows_.clear();
  settlement.delivered = std::exchange(delivered_, {});
  settlement.buried_keys = std::exchange(buried_keys_, {});
  settlement.attempts = std::exchange(attempts_, {});
}

std::vector<std::uint64_t> Siding::saved() {
  std::vector<std::uint64_t> freed;
  for (const Number number : std::exchange(announcing_, {}))
    if (number != alone_) ready_.push_back(number);
  alone_over_ = false;
  alone_late_ = false;
  const std::set<std::uint64_t> told = std::exchange(told_, {});
  for (const std::uint64_t number : told) {
    Key& key = keys_.at(number);
    events_ -= key.ended;
    key.events -= key.ended;
    key.ended = 0;
    key.after = 0;
    if (key.events == 0 && !key.asked) {
      keys_.erase(number);
      freed.push_back(number);
    } else if (std::exchange(key.goes_on_when_saved, false)) {
      go_on_with(number);
    }
  }
  for (const std::int64_t seq : std::exchange(keyless_leaving_, {})) keyless_.erase(seq);
  for (const Due& due : std::exchange(due_when_saved_, {})) rest_until(due.time, due.key);
  return freed;
}

void Siding::abandon_rest() {
  abandoned_ = true;
  park();
  if (on_trial()) end_trial();  // A relay that is to leave and does not may be killed for that.
  for (const Number number : announcing_) take_back(items_.at(number).row);
  ready_.clear();
  parked_.clear();
  in_control_.clear();
  doubtful_.clear();
  suspects_.clear();
  announcing_.clear();
  wanted_.clear();
  due_ = {};
  due_when_saved_.clear();
  keyless_due_.reset();
}

std::optional<Steady> Siding::next_due() const {
  std::optional<Steady> next = keyless_due_;
  const auto look_at = [&](Steady time) { next = std::min(next.value_or(time), time); };
  if (!due_.empty()) look_at(due_.top().time);
  if (!in_control_.empty()) look_at(in_control_.begin()->first);
  if (on_trial()) look_at(trial_end_);
  return next;
}

}  // namespace waybill
