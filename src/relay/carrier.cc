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
// How long events are moved before other things get their turn: orders, settling, a stop. A sink that calls a function
// answers for one event at a time, and would go on for as long as there are events.
constexpr auto move_time_max = 5ms;
// The log is looked at this often whatever is heard of it, and progress without events is saved: it lets go of old
// parts of the log.
constexpr auto quiet_save_interval = 60s;
constexpr std::size_t reason_bytes_max = 2000;
// Read ahead, in batches.
constexpr std::size_t read_ahead_batches = 4;

}  // namespace

Carrier::Carrier(const RelayContext& context, const Trust& trust, Waker& keeper, DestinationOptions destination,
                 std::unique_ptr<Sink> sink)
    : context_(context),
      trust_(trust),
      keeper_(keeper),
      destination_(std::move(destination)),
      sink_(std::move(sink)),
      outage_(context_.log, {"destination", destination_.name}) {}

// --- Orders
// ---------------------------------------------------------------------------------------------------------

void Carrier::grant(const std::vector<Lease>& leases) {
  shards_.grant(leases);
  waker_.wake();
}

void Carrier::give_back(const std::set<std::int32_t>& shards) {
  shards_.give_back(shards);
  waker_.wake();
}

void Carrier::news() noexcept {
  shards_.news();
  waker_.wake();
}

RelayCounts Carrier::counts() const {
  return {.delivered = delivered_.load(), .skipped = skipped_.load(), .failed = failed_.load()};
}

// The trust is read first; see Trust.
std::size_t Carrier::follow_orders() {
  trusted_until_ = trust_.until();
  const Shards::Followed followed = shards_.follow();
  for (const Shard& shard : followed.forgotten) let_go(shard);
  return followed.orders;
}

// Drops a shard that is not ours any more: nothing is written for it.
void Carrier::forget(std::int32_t shard) {
  if (const auto forgotten = shards_.forget(shard)) let_go(*forgotten);
}

void Carrier::let_go(const Shard& shard) {
  if (!shard.lane) return;
  lanes_.drop(*shard.lane);
  if (session_) session_->close(std::span(&shard.lease.shard, 1));
}

// --- The connection
// -------------------------------------------------------------------------------------------------

// Without shards there is no connection to be made.
std::size_t Carrier::connect() {
  if (!any_to_open()) return 0;
  if (!session_) {
    if (!outage_.may_try(context_.clock.steady())) return 0;
    session_ = context_.store.connect(context_.identity, destination_.name);
  }
  if (!trusted()) return 0;
  std::vector<Lease> granted;
  std::vector<Lease> broken;
  for (const auto& [number, shard] : shards_) {
    if (shard.stage == Shard::Stage::granted) granted.push_back(shard.lease);
    if (shard.stage == Shard::Stage::broken) broken.push_back(shard.lease);
  }
  return open(broken, true) + open(granted, false);
}

std::size_t Carrier::open(const std::vector<Lease>& leases, bool again) {
  if (leases.empty()) return 0;
  const std::vector<Lease> opened = session_->open(leases, destination_.start, again);
  for (const Lease& lease : leases) {
    const auto now =
        std::find_if(opened.begin(), opened.end(), [&](const Lease& each) { return each.shard == lease.shard; });
    if (now == opened.end()) {
      forget(lease.shard);
    } else {
      shards_.open(lease.shard, *now, lanes_.open(*now));
    }
  }
  return leases.size();
}

// What was read through a connection lives only as long as it: after a crash the store may hand out numbers
// again.
void Carrier::drop_connection(const Error& error) {
  outage_.failed(error, context_.clock.steady());
  session_.reset();
  drop_lanes();
  shards_.break_all();
}

void Carrier::drop_lanes() {
  for (const auto& [number, shard] : shards_)
    if (shard.lane) lanes_.drop(*shard.lane);
}

void Carrier::abandon() {
  session_.reset();
  drop_lanes();
  shards_.forget_all();
}

void Carrier::close(Steady deadline) {
  sink_->close(deadline);
  abandon();
  lanes_.clear();
  breaker_ = {};
}

// --- A turn
// ---------------------------------------------------------------------------------------------------------

std::size_t Carrier::step() {
  std::size_t done = follow_orders();
  try {
    done += connect();
    done += move_events();
    if (session_) done += exchange();
    done += move_events();
    if (session_) done += return_finished_lanes();
  } catch (const Error& error) {
    if (error.remedy() == Remedy::fix_config) throw;
    drop_connection(error);
  }
  if (shards_.report(nothing_to_read(), nothing_left())) keeper_.wake();
  return done;
}

std::size_t Carrier::move_events() {
  const Steady end = context_.clock.steady() + move_time_max;
  std::size_t done = 0;
  while (true) {
    const std::size_t collected = collect(context_.clock.steady());
    const std::size_t moved = collected + publish(end);
    done += moved;
    if (moved == 0 || context_.clock.steady() >= end) return done;
  }
}

bool Carrier::any_hungry() const {
  return std::any_of(shards_.begin(), shards_.end(), [](const auto& place) { return place.second.wants_to_read(); });
}

bool Carrier::any_to_open() const {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const auto& place) { return place.second.stage != Shard::Stage::open; });
}

bool Carrier::any_ready() const {
  return std::any_of(shards_.begin(), shards_.end(), [](const auto& place) {
    const Shard& shard = place.second;
    return shard.lane && !shard.returning && shard.lane->ready();
  });
}

bool Carrier::nothing_to_read() const {
  return !any_hungry() && !any_to_open();
}

bool Carrier::nothing_left() const {
  if (!nothing_to_read() || lanes_.under_way() > 0) return false;
  return std::all_of(shards_.begin(), shards_.end(), [](const auto& place) {
    const Shard& shard = place.second;
    const auto progress = shard.lane->progress();
    return !shard.returning && shard.lane->unsettled() == 0 && (!progress || progress->count == 0);
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

// Only what step() would then really do: a time that has passed and changes nothing would make the thread spin.
Steady Carrier::next_deadline(Steady latest) const {
  if (next_due_) latest = std::min(latest, *next_due_);
  if (breaker_.open() && any_ready() && trusted()) latest = std::min(latest, breaker_.next_try());
  if (!session_ && any_to_open()) latest = std::min(latest, outage_.next_try());
  if (session_) latest = next_read(latest);
  for (const auto& [number, shard] : shards_) {
    if (!shard.lane) continue;
    if (const auto progress = shard.lane->progress(); progress && progress->count > 0)
      return std::min(latest, last_settle_ + context_.options.settle_interval);
  }
  return latest;
}

Steady Carrier::next_read(Steady latest) const {
  if (!any_hungry()) return latest;
  if (!appetite().shards.empty()) return std::min(latest, last_read_ + read_pause_);
  return std::min(latest, last_look_ + context_.options.poll_busy);
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

// Is there any event that may go now?
bool Carrier::release_due(Steady now) {
  next_due_.reset();
  for (const auto& [number, shard] : shards_) {
    if (!shard.lane || shard.returning) continue;
    const auto due = shard.lane->release_due(now);
    if (due && (!next_due_ || *due < *next_due_)) next_due_ = due;
  }
  return any_ready();
}

std::size_t Carrier::publish(Steady turn_end) {
  const Steady now = context_.clock.steady();
  if (!release_due(now) || !trusted()) return 0;
  const std::size_t most = allowance(now);
  std::size_t submitted = 0;
  auto place = std::next(shards_.begin(), static_cast<std::ptrdiff_t>(++first_shard_ % shards_.size()));
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const Shard& shard = place->second;
    if (++place == shards_.end()) place = shards_.begin();
    if (!shard.lane || shard.returning) continue;
    while (lanes_.under_way() < most) {
      const auto position = shard.lane->next();
      if (!position) break;
      const bool slow = shard.lane->event(*position).payload_deferred;
      if (!submit(*shard.lane, *position)) return submitted;
      ++submitted;
      if (slow && context_.clock.steady() >= turn_end) return submitted;
    }
  }
  return submitted;
}

// False if the event cannot go now.
bool Carrier::submit(Lane& lane, Lane::Position position) {
  EventView& event = lane.event(position);
  if (event.expires_at && *event.expires_at <= context_.clock.now()) {
    skipped_.fetch_add(1, std::memory_order_relaxed);
    lane.finish(position);
    return true;
  }
  if (event.payload_deferred && !load(lane, position)) {
    lane.again_first(position);
    return false;
  }
  WAYBILL_ASSERT(!event.payload_deferred);
  sink_->submit(event, lanes_.ticket(lane, position));
  return true;
}

// False if there is no room for the event's payload now, or if the leases may have run out while it was loaded.
bool Carrier::load(Lane& lane, Lane::Position position) {
  if (lanes_.under_way() > 0 && lanes_.bytes() + limits::payload_bytes_max > context_.options.read_ahead_bytes_max)
    return false;
  try {
    lane.keep(position, session_->load(lane.event(position)));
  } catch (...) {
    lane.again_first(position);  // It is not at the sink, which will not answer for it.
    throw;
  }
  return trusted();
}

// --- Settle and claim
// -----------------------------------------------------------------------------------------------

// A quiet shard is looked at now and then, whatever is heard of the log: it moves on, too, and whoever was not told
// finds out. While another shard of ours keeps being read nobody polls for it, and no producer tells: then it is looked
// at along with the other.
void Carrier::look_around(Steady now) {
  const Steady::duration interval = any_hungry() ? context_.options.poll_busy : quiet_save_interval;
  if (now - last_look_ < interval) return;
  last_look_ = now;
  shards_.make_all_hungry();
}

std::size_t Carrier::exchange() {
  const Steady now = context_.clock.steady();
  look_around(now);
  const std::vector<Settlement> settled = due_settlements(now);
  const Appetite asked = now - last_read_ >= read_pause_ ? appetite() : Appetite{};
  if (settled.empty() && asked.shards.empty()) {
    session_->keep_up();
    return 0;
  }

  Reading reading = session_->exchange(settled, asked);
  outage_.worked();
  if (!settled.empty()) last_settle_ = now;
  if (!asked.shards.empty()) last_read_ = now;
  for (const std::int32_t shard : reading.lost) {
    context_.log.info("another relay has taken over", {{"destination", name()}, {"shard", std::to_string(shard)}});
    forget(shard);
  }
  for (const Settlement& settlement : settled)
    if (const Shard* shard = shards_.find(settlement.shard)) shard->lane->saved();
  return settled.size() + take_in(std::move(reading), asked);
}

std::vector<Settlement> Carrier::due_settlements(Steady now) const {
  std::vector<Settlement> moved;
  bool due = false;
  for (const auto& [number, shard] : shards_) {
    if (!shard.lane) continue;
    auto progress = shard.lane->progress();
    if (!progress) continue;
    const bool last_one = shard.returning && shard.lane->under_way() == 0;
    const auto interval = progress->count > 0 ? std::chrono::milliseconds(context_.options.settle_interval)
                                              : std::chrono::milliseconds(quiet_save_interval);
    due = due || last_one || now - last_settle_ >= interval;
    moved.push_back(std::move(*progress));
  }
  if (!due) moved.clear();
  return moved;
}

// What it would read now, if it is not too soon after the last time.
Appetite Carrier::appetite() const {
  if (!trusted()) return {};
  const auto batch = static_cast<std::size_t>(context_.options.batch);
  std::size_t events = 0;
  const std::size_t bytes = lanes_.bytes();
  Appetite wish;
  for (const auto& [number, shard] : shards_) {
    if (!shard.lane) continue;
    events += shard.lane->unsettled();
    if (shard.wants_to_read() && shard.lane->unsettled() < batch) wish.shards.push_back(number);
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
  for (const std::int32_t number : asked.shards)
    if (Shard* shard = shards_.find(number)) shard->hungry = false;
  std::size_t events = 0;
  bool behind = false;
  for (Chunk& chunk : reading.chunks) {
    Shard* shard = shards_.find(chunk.shard);
    WAYBILL_ASSERT(shard != nullptr && shard->lane != nullptr);
    behind = behind || !chunk.ends_window;
    shard->hungry = !chunk.events.empty() || !chunk.ends_window;
    events += chunk.events.size();
    append(*shard->lane, std::move(chunk));
  }
  read_.fetch_add(events, std::memory_order_relaxed);
  // Where some came others will: to look at all shards costs no more than to look at one, and shards that are level
  // stay so.
  if (events > 0 && !behind) shards_.make_all_hungry();
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
  for (const auto& [number, shard] : shards_)
    if (shard.returning && shard.lane && shard.lane->under_way() == 0 && !shard.lane->progress())
      finished.push_back(shard.lease);
  if (finished.empty()) return 0;
  session_->release(finished);
  outage_.worked();
  for (const Lease& lease : finished) forget(lease.shard);
  return finished.size();
}

}  // namespace waybill
