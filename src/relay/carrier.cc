#include "relay/carrier.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "model/retry.h"
#include "model/routing.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

// Between two looks at the log while events keep coming: the more a look has brought, the longer. Few events are
// wanted soon; many are better read together, since every look costs those who write them.
constexpr Steady::duration read_pause_min = 1ms;
constexpr Steady::duration read_pause_max = 5ms;
constexpr Steady::duration read_pause_per_event = 250us;
// How long a wait for the destination's answers may make other things wait.
constexpr auto answer_pause = 2ms;
// The log is looked at this often whatever is heard of it, and progress without events is saved: it lets go of old
// parts of the log.
constexpr auto quiet_save_interval = 60s;
constexpr auto connect_pause_max = 2000ms;
constexpr std::size_t reason_bytes_max = 2000;
// Read ahead, in batches.
constexpr std::size_t read_ahead_batches = 4;

}  // namespace

Carrier::Carrier(const RelayContext& context, const Trust& trust, Waker& keeper, DestinationOptions destination,
                 std::unique_ptr<Sink> sink)
    : context_(context), trust_(trust), keeper_(keeper), destination_(std::move(destination)), sink_(std::move(sink)) {}

// --- Orders
// ---------------------------------------------------------------------------------------------------------

void Carrier::grant(const std::vector<Lease>& leases) {
  {
    const std::lock_guard lock(mutex_);
    orders_.grants.insert(orders_.grants.end(), leases.begin(), leases.end());
    held_.insert(held_.end(), leases.begin(), leases.end());
  }
  waits_ = false;
  idle_ = false;
  waker_.wake();
}

void Carrier::give_back(const std::set<std::int32_t>& shards) {
  {
    const std::lock_guard lock(mutex_);
    orders_.returns.insert(shards.begin(), shards.end());
  }
  waker_.wake();
}

void Carrier::keep_only(std::vector<Lease> mine) {
  const std::lock_guard lock(mutex_);
  orders_.mine = std::move(mine);
}

std::vector<Lease> Carrier::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

void Carrier::news() noexcept {
  news_ = true;
  waits_ = false;
  idle_ = false;
  waker_.wake();
}

RelayCounts Carrier::counts() const {
  return {.delivered = delivered_.load(), .skipped = skipped_.load(), .failed = failed_.load()};
}

std::size_t Carrier::follow_orders() {
  Orders orders;
  {
    const std::lock_guard lock(mutex_);
    std::swap(orders, orders_);
  }
  if (orders.mine) {
    const auto lost = [&](const Lease& lease) {
      return std::find(orders.mine->begin(), orders.mine->end(), lease) == orders.mine->end();
    };
    for (const Lease& lease : held())
      if (lost(lease) && std::find(orders.grants.begin(), orders.grants.end(), lease) == orders.grants.end())
        forget(lease.shard);
  }
  to_open_.insert(to_open_.end(), orders.grants.begin(), orders.grants.end());
  for (const std::int32_t shard : orders.returns) {
    returning_.insert(shard);
    hungry_.erase(shard);
    if (Lane* lane = lanes_.find(shard)) lane->abandon_rest();
  }
  return orders.grants.size() + orders.returns.size();
}

// Drops a shard that is not ours any more: nothing is written for it.
void Carrier::forget(std::int32_t shard) {
  lanes_.drop(shard);
  hungry_.erase(shard);
  returning_.erase(shard);
  std::erase_if(to_open_, [&](const Lease& lease) { return lease.shard == shard; });
  std::erase_if(to_reopen_, [&](const Lease& lease) { return lease.shard == shard; });
  if (session_) session_->close(std::span(&shard, 1));
  const std::lock_guard lock(mutex_);
  std::erase_if(held_, [&](const Lease& lease) { return lease.shard == shard; });
}

// --- The connection
// -------------------------------------------------------------------------------------------------

std::size_t Carrier::connect(Steady now) {
  if (to_open_.empty() && to_reopen_.empty()) {
    if (!session_) news_ = false;  // None of the news are for us.
    return 0;
  }
  if (!session_) {
    if (now < next_connect_) return 0;
    session_ = context_.store.connect(context_.identity, destination_.name);
    connect_failures_ = 0;
  }
  if (!trust_.holds(now)) return 0;
  const std::size_t reopened = open(to_reopen_, true);
  to_reopen_.clear();
  const std::size_t opened = open(to_open_, false);
  to_open_.clear();
  return reopened + opened;
}

// If it throws, the leases stay where they are, to be begun later.
std::size_t Carrier::open(std::vector<Lease> leases, bool again) {
  if (leases.empty()) return 0;
  const std::vector<Lease> opened = session_->open(leases, destination_.start, again);
  for (const Lease& lease : leases) {
    const auto now =
        std::find_if(opened.begin(), opened.end(), [&](const Lease& each) { return each.shard == lease.shard; });
    if (now == opened.end()) {
      forget(lease.shard);
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      std::replace(held_.begin(), held_.end(), lease, *now);
    }
    lanes_.open(*now);
    if (!returning_.contains(lease.shard)) hungry_.insert(lease.shard);
  }
  return leases.size();
}

// What was read through a connection lives only as long as it: after a crash the store may hand out numbers
// again.
void Carrier::drop_connection(const Error& error, Steady now) {
  context_.log.warning("the store is away; will try again", {{"destination", name()}, {"error", error.what()}});
  session_.reset();
  lanes_.drop_all();
  hungry_.clear();
  to_open_.clear();
  to_reopen_ = held();
  const auto pause = retry_delay({.first_delay = 100ms, .max_delay = connect_pause_max}, ++connect_failures_, chance());
  next_connect_ = now + std::max(pause, std::chrono::milliseconds(20));
}

// --- A turn
// ---------------------------------------------------------------------------------------------------------

std::size_t Carrier::step() {
  std::size_t done = follow_orders();
  const Steady now = context_.clock.steady();
  try {
    done += connect(now);
    done += move_events();
    if (session_) done += exchange(now);
    done += move_events();
    if (session_) done += return_finished_lanes();
  } catch (const Error& error) {
    if (error.remedy() == Remedy::fix_config) throw;
    drop_connection(error, now);
  }
  const bool waits = nothing_to_read();
  const bool idle = nothing_left();
  const bool began_to_wait = !waits_.exchange(waits) && waits;
  const bool became_idle = !idle_.exchange(idle) && idle;
  if (began_to_wait || became_idle) keeper_.wake();
  return done;
}

std::size_t Carrier::move_events() {
  std::size_t done = 0;
  while (true) {
    const std::size_t moved = collect(context_.clock.steady()) + publish();
    if (moved == 0) return done;
    done += moved;
  }
}

bool Carrier::nothing_to_read() const {
  return !news_ && hungry_.empty() && to_open_.empty() && to_reopen_.empty();
}

bool Carrier::nothing_left() const {
  if (!nothing_to_read() || !returning_.empty() || lanes_.under_way() > 0) return false;
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& place) {
    const auto progress = place.second->progress();
    return place.second->unsettled() == 0 && (!progress || progress->count == 0);
  });
}

void Carrier::wait(Steady deadline) {
  deadline = next_deadline(deadline);
  if (lanes_.under_way() > 0) {
    collect(std::min(deadline, context_.clock.steady() + answer_pause));
  } else {
    waker_.wait(deadline);
  }
}

Steady Carrier::next_deadline(Steady latest) const {
  if (next_due_) latest = std::min(latest, *next_due_);
  if (breaker_.open()) latest = std::min(latest, breaker_.next_try());
  if (!session_ && !(to_open_.empty() && to_reopen_.empty())) latest = std::min(latest, next_connect_);
  if (!hungry_.empty()) latest = std::min(latest, last_read_ + read_pause_);
  for (const auto& [shard, lane] : lanes_)
    if (const auto progress = lane->progress(); progress && progress->count > 0)
      return std::min(latest, last_settle_ + context_.options.settle_interval);
  return latest;
}

void Carrier::close(Steady deadline) {
  sink_->close(deadline);
}

// --- Publish
// --------------------------------------------------------------------------------------------------------

std::size_t Carrier::collect(Steady deadline) {
  if (lanes_.under_way() == 0) return 0;
  outcomes_.clear();
  sink_->collect(outcomes_, deadline);
  const Steady now = context_.clock.steady();
  for (const Outcome& outcome : outcomes_) apply(outcome, now);
  return outcomes_.size();
}

void Carrier::apply(const Outcome& outcome, Steady now) {
  const auto [lane, position] = lanes_.answered(outcome.ticket);
  if (outcome.kind == Outcome::Kind::delivered) {
    delivered_.fetch_add(1, std::memory_order_relaxed);
    breaker_.available();
    if (lane) lane->finish(position);
    return;
  }
  failed_.fetch_add(1, std::memory_order_relaxed);
  if (outcome.kind == Outcome::Kind::unavailable) {
    if (!breaker_.open())
      context_.log.warning("the destination is away; will try again",
                           {{"destination", name()}, {"error", outcome.reason.substr(0, reason_bytes_max)}});
    breaker_.unavailable(now, chance());
    if (lane) lane->again_first(position);
    return;
  }
  if (lane) retry_later(*lane, position, outcome, now);
}

void Carrier::retry_later(Lane& lane, Lane::Position position, const Outcome& outcome, Steady now) {
  const int failures = lane.fail(position);
  const auto pause = retry_delay(destination_.retry, failures, chance());
  context_.log.warning("an event was not delivered; will try again",
                       {{"destination", name()},
                        {"event", lane.event(position).id.to_string()},
                        {"outcome", std::string(to_string(outcome.kind))},
                        {"failures", std::to_string(failures)},
                        {"error", outcome.reason.substr(0, reason_bytes_max)}});
  lane.again_at(position, now + pause);
}

std::size_t Carrier::allowance(Steady now) {
  if (breaker_.open() && now >= breaker_.next_try()) {
    const Outcome answer = sink_->probe(now + 1s);
    breaker_.try_now();
    if (answer.kind != Outcome::Kind::delivered) breaker_.unavailable(now, chance());
  }
  return breaker_.allowance(sink_->in_flight_max());
}

std::size_t Carrier::publish() {
  const Steady now = context_.clock.steady();
  next_due_.reset();
  bool ready = false;
  for (const auto& [shard, lane] : lanes_) {
    const auto due = lane->release_due(now);
    if (due && (!next_due_ || *due < *next_due_)) next_due_ = due;
    ready = ready || lane->ready();
  }
  if (!ready || !trust_.holds(now)) return 0;
  const std::size_t most = allowance(now);
  std::size_t submitted = 0;
  ++first_lane_;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const auto& [shard, lane] =
        *std::next(lanes_.begin(), static_cast<std::ptrdiff_t>((first_lane_ + i) % lanes_.size()));
    if (returning_.contains(shard)) continue;
    while (lanes_.under_way() < most) {
      const auto position = lane->next();
      if (!position) break;
      if (!submit(*lane, *position)) return submitted;
      ++submitted;
    }
  }
  return submitted;
}

// False if there is no room for the event's payload now.
bool Carrier::submit(Lane& lane, Lane::Position position) {
  EventView& event = lane.event(position);
  if (event.payload_deferred) {
    if (lanes_.under_way() > 0 && lanes_.bytes() + limits::payload_bytes_max > context_.options.read_ahead_bytes_max) {
      lane.again_first(position);
      return false;
    }
    lane.keep(position, session_->load(event));
  }
  WAYBILL_ASSERT(!event.payload_deferred);
  sink_->submit(event, lanes_.ticket(lane, position));
  return true;
}

// --- Settle and claim
// -----------------------------------------------------------------------------------------------

std::size_t Carrier::exchange(Steady now) {
  // Also without news: a shard that nothing comes to moves on, too, and whoever was not told finds out.
  if (news_.exchange(false) || now - last_read_ >= quiet_save_interval)
    for (const auto& [shard, lane] : lanes_)
      if (!returning_.contains(shard)) hungry_.insert(shard);
  const std::vector<Settlement> settled = due_settlements(now);
  const Appetite asked = appetite(now);
  if (settled.empty() && asked.shards.empty()) {
    session_->keep_up();
    return 0;
  }

  Reading reading = session_->exchange(settled, asked);
  if (!settled.empty()) last_settle_ = now;
  if (!asked.shards.empty()) last_read_ = now;
  for (const std::int32_t shard : reading.lost) {
    context_.log.info("another relay has taken over", {{"destination", name()}, {"shard", std::to_string(shard)}});
    forget(shard);
  }
  for (const Settlement& settlement : settled)
    if (Lane* lane = lanes_.find(settlement.shard)) lane->saved();
  return settled.size() + take_in(std::move(reading), asked);
}

std::vector<Settlement> Carrier::due_settlements(Steady now) const {
  std::vector<Settlement> moved;
  bool due = false;
  for (const auto& [shard, lane] : lanes_) {
    auto progress = lane->progress();
    if (!progress) continue;
    const bool last_one = returning_.contains(shard) && lane->under_way() == 0;
    const auto interval = progress->count > 0 ? std::chrono::milliseconds(context_.options.settle_interval)
                                              : std::chrono::milliseconds(quiet_save_interval);
    due = due || last_one || now - last_settle_ >= interval;
    moved.push_back(std::move(*progress));
  }
  if (!due) moved.clear();
  return moved;
}

Appetite Carrier::appetite(Steady now) const {
  if (now - last_read_ < read_pause_ || !trust_.holds(now)) return {};
  const auto batch = static_cast<std::size_t>(context_.options.batch);
  std::size_t events = 0;
  const std::size_t bytes = lanes_.bytes();
  Appetite wish;
  for (const auto& [shard, lane] : lanes_) {
    events += lane->unsettled();
    if (hungry_.contains(shard) && lane->unsettled() < batch) wish.shards.push_back(shard);
  }
  // Reading a little at a time would cost as many round trips as there are events.
  if (wish.shards.empty() || events > read_ahead_batches / 2 * batch ||
      bytes > context_.options.read_ahead_bytes_max / 2)
    return {};
  const std::size_t room = read_ahead_batches * batch - events;
  wish.events_max = static_cast<int>(std::clamp<std::size_t>(room / wish.shards.size(), 1, batch));
  wish.bytes_max = context_.options.read_ahead_bytes_max - bytes;
  return wish;
}

std::size_t Carrier::take_in(Reading reading, const Appetite& asked) {
  for (const std::int32_t shard : asked.shards) hungry_.erase(shard);
  std::size_t events = 0;
  bool behind = false;
  for (Chunk& chunk : reading.chunks) {
    Lane* lane = lanes_.find(chunk.shard);
    WAYBILL_ASSERT(lane != nullptr);
    behind = behind || !chunk.ends_window;
    if (!chunk.events.empty() || !chunk.ends_window) hungry_.insert(chunk.shard);
    events += chunk.events.size();
    append(*lane, std::move(chunk));
  }
  read_.fetch_add(events, std::memory_order_relaxed);
  // Where some came others will: to look at all shards costs no more than to look at one, and shards that are level
  // stay so.
  if (events > 0)
    for (const auto& [shard, lane] : lanes_)
      if (!returning_.contains(shard)) hungry_.insert(shard);
  read_pause_ =
      behind ? Steady::duration(0)
             : std::clamp(read_pause_per_event * static_cast<Steady::rep>(events), read_pause_min, read_pause_max);
  return events;
}

void Carrier::append(Lane& lane, Chunk chunk) {
  const Time now = context_.clock.now();
  const Steady steady_now = context_.clock.steady();
  lane.append(std::move(chunk), [&](const EventView& event, std::optional<Steady>& due) {
    if (!matches(destination_.match, event) || (event.expires_at && *event.expires_at <= now)) {
      skipped_.fetch_add(1, std::memory_order_relaxed);
      return Lane::Way::skip;
    }
    if (event.not_before && *event.not_before > now) due = steady_now + (*event.not_before - now);
    return Lane::Way::publish;
  });
}

std::size_t Carrier::return_finished_lanes() {
  std::vector<Lease> finished;
  for (const std::int32_t shard : returning_) {
    const Lane* lane = lanes_.find(shard);
    if (lane && lane->under_way() == 0 && !lane->progress()) finished.push_back(lane->lease());
  }
  if (finished.empty()) return 0;
  session_->release(finished);
  for (const Lease& lease : finished) forget(lease.shard);
  return finished.size();
}

}  // namespace waybill
