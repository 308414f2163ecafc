#include "relay/carrier.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/error_text.h"
#include "model/routing.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

// How long a wait for the destination's answers may make other things wait.
constexpr auto answer_pause = 2ms;
// How long events are moved before other things get their turn: orders, settling, a stop. A sink that calls a function
// answers for one event at a time, and would go on for as long as there are events.
constexpr auto move_time_max = 5ms;
// The log is looked at this often whatever is heard of it, and progress without events is saved: it lets go of old
// parts of the log.
constexpr auto quiet_save_interval = 60s;
// Undelivered events fetched at once, and announced at once before they are tried.
constexpr int fetch_max = 256;
// Further ahead nothing is scheduled: it would overflow.
constexpr auto schedule_max = 24h * 3650;
constexpr std::size_t announced_max = 100;
// How many times as often a lane is settled when it is full of what is to be passed.
constexpr int crowded_hurry = 10;
// Read ahead, in batches.
constexpr std::size_t read_ahead_batches = 4;

}  // namespace

Carrier::Carrier(const RelayContext& context, const Trust& trust, Waker& keeper, DestinationOptions destination,
                 std::unique_ptr<Sink> sink, bool counts_unmatched)
    : context_(context),
      trust_(trust),
      keeper_(keeper),
      destination_(std::move(destination)),
      counts_unmatched_(counts_unmatched),
      sink_(std::move(sink)),
      outage_(context_.log, {"destination", destination_.name}) {}

// --- Orders

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

void Carrier::note(std::int64_t changes, bool paused) {
  if (shards_.note(changes, paused)) waker_.wake();
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
  const std::vector<Opened> opened = session_->open(leases, destination_.start, again);
  Lane::Options options{.announce = destination_.on_unknown == OnUnknown::hold,
                        .announced_max = std::min(sink_->in_flight_max(), announced_max),
                        .blocked_per_key_max = destination_.blocked_per_key_max,
                        .blocked_max = destination_.blocked_max};
  for (const Lease& lease : leases) {
    const auto found =
        std::find_if(opened.begin(), opened.end(), [&](const Opened& each) { return each.lease.shard == lease.shard; });
    if (found == opened.end()) {
      forget(lease.shard);
    } else {
      Shard& shard = *shards_.find(lease.shard);
      options.begun_again = shard.begun;  // A connection may break before anything was sent.
      if (!shard.since) shard.since = context_.clock.steady();
      options.since = shard.since;
      shards_.open(lease.shard, found->lease, lanes_.open(*found, options, context_.clock.steady()));
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

// Nobody knows what the sink still holds, so it lets go of everything: what was under way may be sent again.
void Carrier::start_over(const std::exception& failure) {
  const std::string reason = fmt::format("an unexpected exception: {}", error_text(failure));
  context_.log.error("the destination's work has failed; it starts over", {{"destination", name()}, {"error", reason}});
  const Steady now = context_.clock.steady();
  breaker_.unavailable(now, chance(), reason);
  drop_connection(Error(Remedy::retry, reason));
  close_sink(now);
  lanes_.clear();
}

void Carrier::close_sink(Steady deadline) {
  try {
    sink_->close(deadline);
  } catch (const std::exception& failure) {
    context_.log.error("the destination cannot be closed", {{"destination", name()}, {"error", error_text(failure)}});
  }
}

void Carrier::drop_lanes() {
  for (const auto& [number, shard] : shards_)
    if (shard.lane) lanes_.drop(*shard.lane);
}

RelayCounts Carrier::counts() const {
  RelayCounts counts = tally_.counts(shards_.held().size());
  counts.trusted_until = sink_->trusted_until();
  return counts;
}

void Carrier::abandon() {
  session_.reset();
  drop_lanes();
  shards_.forget_all();
  context_.solo.give(waker_);
}

// If that cannot be saved, what was alone goes alone once more.
void Carrier::acquit() {
  if (!session_ || destination_.on_unknown == OnUnknown::hold || !one_is_alone()) return;
  std::vector<Settlement> settled;
  for (const auto& [number, shard] : shards_) {
    if (!shard.lane) continue;
    shard.lane->acquit();
    if (auto settlement = shard.lane->settle(context_.clock.steady())) settled.push_back(std::move(*settlement));
  }
  try {
    if (!settled.empty()) session_->exchange(settled, {});
  } catch (const Error& error) {
    outage_.failed(error, context_.clock.steady());
  }
}

void Carrier::close(Steady deadline) {
  close_sink(deadline);
  acquit();
  abandon();
  say_expired(context_.clock.steady(), true);
  lanes_.clear();
  breaker_ = {};
  tally_.show(breaker_, context_.clock);
}

// --- A turn

std::size_t Carrier::step() {
  std::size_t done = follow_orders();
  try {
    done += connect();
    done += move_events();
    if (session_) done += fetch();
    judge_suspects();
    if (session_) done += exchange();
    done += move_events();
    if (breaker_.open() || shards_.paused()) park();
    if (session_) done += return_finished_lanes();
  } catch (const Error& error) {
    if (!mends_itself(error)) throw;
    drop_connection(error);
  } catch (const std::exception& failure) {
    start_over(failure);
    done = 0;
  }
  give_solo();
  say_expired(context_.clock.steady(), false);
  tally_.show(breaker_, context_.clock);
  if (shards_.report(nothing_to_read(), nothing_left())) keeper_.wake();
  return done;
}

// What was announced and cannot be tried is taken back.
void Carrier::park() {
  for (const auto& [number, shard] : shards_)
    if (shard.lane) shard.lane->park();
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
    return shard.lane && !shard.ending() && (shard.lane->ready() || shard.lane->wants_alone());
  });
}

bool Carrier::any_wanted() const {
  return std::any_of(shards_.begin(), shards_.end(), [](const auto& place) {
    const Shard& shard = place.second;
    return shard.lane && !shard.ending() && shard.lane->wants();
  });
}

bool Carrier::nothing_to_read() const {
  return !any_hungry() && !any_to_open();
}

// What a paused destination does not get waits in the log for a person.
bool Carrier::nothing_left() const {
  const bool paused = shards_.paused();
  if (any_to_open() || lanes_.under_way() > 0) return false;
  if (!paused && (any_hungry() || any_ready() || any_wanted())) return false;
  const Steady now = context_.clock.steady();
  return std::all_of(shards_.begin(), shards_.end(), [&](const auto& place) {
    const Shard& shard = place.second;
    return !shard.ending() && (paused || shard.lane->unsettled() == 0) &&
           shard.lane->urgency(now) <= Lane::Urgency::whenever;
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
  if (breaker_.open() && (any_ready() || any_wanted()) && trusted() && !shards_.paused())
    latest = std::min(latest, breaker_.next_try());
  if (!session_ && any_to_open()) latest = std::min(latest, outage_.next_try());
  if (session_) latest = next_read(latest);
  const Steady now = context_.clock.steady();
  for (const auto& [number, shard] : shards_) {
    if (!shard.lane) continue;
    if (shard.lane->urgency(now) >= Lane::Urgency::soon)
      latest = std::min(latest, last_settle_ + settle_interval(*shard.lane, now));
  }
  return latest;
}

Steady Carrier::next_read(Steady latest) const {
  if (!any_hungry()) return latest;
  if (!appetite().shards.empty()) return std::min(latest, pace_.next());
  return std::min(latest, last_look_ + context_.options.poll_busy);
}

// --- Settle and claim

// A quiet shard is looked at now and then, whatever is heard of the log: it moves on, too, and whoever was not told
// finds out. While another shard of ours keeps being read nobody polls for it, and no producer tells: then it is looked
// at along with the other.
void Carrier::look_around(Steady now) {
  const Steady::duration interval = any_hungry() ? context_.options.poll_busy : quiet_save_interval;
  if (now - last_look_ < interval) return;
  last_look_ = now;
  shards_.make_all_hungry();
}

// Brings undelivered events in that are due.
std::size_t Carrier::fetch() {
  const Steady now = context_.clock.steady();
  // Most of what is fetched is announced at once; not beside one that is alone.
  if (!any_wanted() || !trusted() || shards_.paused() || one_is_alone() ||
      (breaker_.open() && now < breaker_.next_try()) ||
      (lanes_.bytes() > context_.options.read_ahead_bytes_max && (lanes_.under_way() > 0 || any_ready())))
    return 0;
  const int most = breaker_.away() ? 1 : fetch_max;  // One will do for a try.
  std::vector<Wanted> wanted;
  for (const auto& [number, shard] : shards_) {
    if (!shard.lane || shard.ending()) continue;
    const auto some = shard.lane->wanted(most - static_cast<int>(wanted.size()));
    wanted.insert(wanted.end(), some.begin(), some.end());
  }
  const Fetched fetched = session_->fetch(wanted);
  for (const auto& [number, shard] : shards_) {
    if (!shard.lane || shard.ending()) continue;
    shard.lane->take_in(fetched, wanted, now);
  }
  return wanted.size();
}

// Those that were fetched, and those that come after others of their key, which are delivered now.
void Carrier::judge_suspects() {
  for (const auto& [number, shard] : shards_) {
    if (!shard.lane || shard.ending()) continue;
    while (const auto suspect = shard.lane->next_suspect()) {
      const Steady now = context_.clock.steady();
      if (shard.lane->missing(*suspect)) {
        carry_out(*shard.lane, *suspect, verdict_of_missing(destination_, shard.lane->row(*suspect)), now);
      } else {
        judge_after_crash(*shard.lane, *suspect, now);
      }
    }
  }
}

std::size_t Carrier::exchange() {
  const Steady now = context_.clock.steady();
  look_around(now);
  const Appetite asked = now >= pace_.next() ? appetite() : Appetite{};
  // What would be due before the next look goes along with this one.
  const std::vector<Settlement> settled = due_settlements(now, asked.shards.empty() ? now : now + pace_.pause());
  if (settled.empty() && asked.shards.empty()) {
    session_->keep_up();
    return 0;
  }

  Reading reading = session_->exchange(settled, asked);
  outage_.worked();
  if (!settled.empty()) last_settle_ = now;
  for (const std::int32_t shard : reading.lost) {
    context_.log.info("another relay has taken over", {{"destination", name()}, {"shard", std::to_string(shard)}});
    forget(shard);
  }
  const bool was_alone = one_is_alone();
  for (const Settlement& settlement : settled)
    if (const Shard* shard = shards_.find(settlement.shard)) shard->lane->saved();
  if (was_alone && !one_is_alone()) context_.solo.give(waker_);
  return settled.size() + take_in(std::move(reading), asked, now);
}

// A lane that is full of events which only wait to be passed is not read any more, and what is behind them waits, too.
Steady::duration Carrier::settle_interval(const Lane& lane, Steady now) const {
  const bool crowded = std::cmp_greater_equal(lane.unsettled(), context_.options.batch / 2) && lane.can_pass(now);
  switch (lane.urgency(now)) {
    case Lane::Urgency::at_once:
      return {};
    case Lane::Urgency::soon:
      return context_.options.settle_interval / (crowded ? crowded_hurry : 1);
    default:
      return quiet_save_interval;
  }
}

// What is due at `time`, as it is now.
std::vector<Settlement> Carrier::due_settlements(Steady now, Steady time) {
  const bool due = std::any_of(shards_.begin(), shards_.end(), [&](const auto& place) {
    const Shard& shard = place.second;
    if (!shard.lane) return false;
    if (shard.lane->urgency(now) == Lane::Urgency::none) return false;
    return (shard.ending() && shard.lane->under_way() == 0) || time - last_settle_ >= settle_interval(*shard.lane, now);
  });
  std::vector<Settlement> moved;
  if (!due) return moved;
  for (auto& [number, shard] : shards_) {
    if (!shard.lane) continue;
    if (auto settlement = shard.lane->settle(now)) moved.push_back(std::move(*settlement));
    say_if_at_limit(shard);
  }
  return moved;
}

void Carrier::say_if_at_limit(Shard& shard) {
  const bool before = std::exchange(shard.at_limit, shard.lane->at_limit());
  if (!shard.at_limit || before) return;
  context_.log.error("too many events wait behind failed ones of their key: the shard stands still",
                     {{"destination", name()},
                      {"shard", std::to_string(shard.lease.shard)},
                      {"blocked", std::to_string(shard.lane->blocked())}});
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
    if (shard.wants_to_read() && !shard.stale && shard.lane->unsettled() < batch) wish.shards.push_back(number);
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

std::size_t Carrier::take_in(Reading reading, const Appetite& asked, Steady now) {
  if (asked.shards.empty()) return 0;
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
  pace_.looked(events, behind, now);
  return events;
}

void Carrier::append(Lane& lane, Chunk chunk) {
  const Time now = session_->now();
  const Steady steady_now = context_.clock.steady();
  lane.append(std::move(chunk), [&](const EventView& event) {
    Lane::Decision decision{.publish = matches(destination_.match, event)};
    if (!decision.publish) skip(event);
    if (event.not_before && *event.not_before > now)
      decision.due = steady_now + std::min<Time::duration>(*event.not_before - now, schedule_max);
    return decision;
  });
}

void Carrier::skip(const EventView& event) {
  tally_.skipped();
  if (!counts_unmatched_) return;
  const auto& rules = context_.identity.rules;
  const auto takes = [&](const auto& rule) { return matches(rule.second, event); };
  if (std::any_of(rules.begin(), rules.end(), takes)) return;
  if (tally_.unmatched())
    context_.log.warning("an event goes nowhere: no destination of this relay takes it; the next ones are only counted",
                         {{"topic", std::string(event.topic)}, {"event", event.id.to_string()}});
}

// What is returned is given back; what is stale is begun anew, as it is in the store now.
std::size_t Carrier::return_finished_lanes() {
  const Steady now = context_.clock.steady();
  std::vector<Lease> finished;
  std::vector<std::int32_t> stale;
  for (const auto& [number, shard] : shards_) {
    if (!shard.ending() || !shard.lane || shard.lane->under_way() > 0) continue;
    if (shard.lane->urgency(now) != Lane::Urgency::none) continue;
    if (shard.returning) {
      finished.push_back(shard.lease);
    } else {
      stale.push_back(number);
    }
  }
  for (const std::int32_t number : stale) let_go(shards_.begin_anew(number));
  if (finished.empty()) return stale.size();
  session_->release(finished);
  outage_.worked();
  for (const Lease& lease : finished) forget(lease.shard);
  return finished.size() + stale.size();
}

}  // namespace waybill
