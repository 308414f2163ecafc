// The half of a Carrier that deals with the destination.
#include <algorithm>
#include <utility>

#include "relay/carrier.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

// How often expired events are logged, at most.
constexpr auto expired_log_interval = 10s;

Breaker::Source source_of(const EventView& event) {
  return {.event = event.seq, .tenant = event.tenant, .topic = event.topic};
}

}  // namespace

std::size_t Carrier::collect(Steady deadline) {
  if (lanes_.under_way() == 0) return 0;
  outcomes_.clear();
  sink_->collect(outcomes_, deadline);
  const Steady now = context_.clock.steady();
  const Time time = store_time();
  for (const Outcome& outcome : outcomes_) apply(outcome, now, time);
  return outcomes_.size();
}

void Carrier::apply(const Outcome& outcome, Steady now, Time time) {
  const auto [lane, position] = lanes_.answered(outcome.ticket);
  if (outcome.kind == Outcome::Kind::delivered) {
    tally_.delivered(lane ? &lane->event(position) : nullptr, time);
    if (outcome.repeated) tally_.repeated();
    breaker_.delivered();
    if (lane) finish(*lane, position);
    return;
  }
  tally_.failed(outcome.kind);
  if (outcome.kind == Outcome::Kind::unavailable) {
    trip([&] { breaker_.unavailable(now, chance(), outcome.reason); });
    if (lane) lane->again_first(position);
    return;
  }
  if (lane) judge(*lane, position, outcome, now);
}

// Says so if the breaker opens by what is done.
template <typename Doing>
void Carrier::trip(const Doing& doing) {
  const bool was_open = breaker_.open() || breaker_.suspicious();
  doing();
  if (was_open || !(breaker_.open() || breaker_.suspicious()) || std::exchange(said_away_, true)) return;
  context_.log.warning(breaker_.open() ? "the destination is away; will try again"
                                       : "events of a few tenants or topics fail; they are held back, others go on",
                       {{"destination", name()}, {"error", breaker_.reason().substr(0, limits::error_bytes_max)}});
}

void Carrier::finish(Lane& lane, Lane::Position position) {
  if (std::exchange(said_away_, false)) context_.log.info("the destination is back", {{"destination", name()}});
  // For the record, if it took more than one attempt, or a person.
  if (const Undelivered row = lane.row(position); row.attempts > 1 || lane.event(position).redrives > 0)
    lane.add_attempt({.seq = row.seq, .number = row.attempts, .at = store_time()});
  lane.finish(position);
}

void Carrier::judge(Lane& lane, Lane::Position position, const Outcome& outcome, Steady now) {
  const EventView& event = lane.event(position);
  const Undelivered row = lane.row(position);
  bool guilty = true;
  if (!outcome.unsent)
    trip([&] {
      const Breaker::Source source = source_of(event);
      guilty = outcome.kind == Outcome::Kind::rejected
                   ? breaker_.rejected(source, now, chance(), outcome.reason)
                   : breaker_.failed(source, row.key != 0 ? row.key : static_cast<std::uint64_t>(row.seq), now,
                                     chance(), outcome.reason);
    });
  Verdict verdict = guilty ? waybill::verdict(destination_, event, row, outcome, chance())
                           : verdict_of_not_guilty(destination_, row, outcome, chance());
  lane.add_attempt({.seq = row.seq,
                    .number = row.attempts,
                    .at = store_time(),
                    .outcome = outcome.kind,
                    .error = verdict.row.error});
  carry_out(lane, position, verdict, now);
}

void Carrier::judge_after_crash(Lane& lane, Lane::Position position, Steady now) {
  const Undelivered row = lane.row(position);
  const Verdict verdict =
      lane.begun_again() ? verdict_after_break(destination_, row, chance()) : verdict_after_crash(destination_, row);
  lane.add_attempt({.seq = row.seq,
                    .number = row.attempts,
                    .at = store_time(),
                    .outcome = Outcome::Kind::unknown,
                    .error = verdict.row.error});
  carry_out(lane, position, verdict, now);
}

void Carrier::carry_out(Lane& lane, Lane::Position position, const Verdict& verdict, Steady now) {
  const Standing standing = verdict.row.standing;
  const bool given_up = standing == Standing::dead || standing == Standing::held;
  context_.log.warning(given_up ? "an event was not delivered, and is given up" : "an event was not delivered",
                       {{"destination", name()},
                        {"event", lane.event(position).id.to_string()},
                        {"standing", std::string(to_string(standing))},
                        {"attempts", std::to_string(verdict.row.attempts)},
                        {"error", verdict.row.error}});
  if (standing == Standing::dead) tally_.dead();
  lane.put_back(position, verdict.row, now);
  if (verdict.bury_key) lane.bury_key(verdict.row.key);
}

std::size_t Carrier::allowance(Steady now) {
  if (breaker_.open() && now >= breaker_.next_try()) {
    if (!breaker_.booked()) breaker_.put_off(context_.tries.book(now));
    if (now < breaker_.next_try()) return 0;
    const Outcome answer = sink_->probe(now + 1s);
    breaker_.try_now();
    if (answer.kind != Outcome::Kind::delivered) breaker_.unavailable(now, chance(), answer.reason);
  }
  return breaker_.allowance(sink_->in_flight_max());
}

// Is there any event that may go now?
bool Carrier::release_due(Steady now) {
  next_due_.reset();
  for (const auto& [number, shard] : shards_) {
    if (!shard.lane || shard.ending()) continue;
    const auto due = shard.lane->release_due(now);
    if (due && (!next_due_ || *due < *next_due_)) next_due_ = due;
  }
  return any_ready();
}

std::size_t Carrier::publish(Steady turn_end) {
  const Steady now = context_.clock.steady();
  if (!release_due(now) || !trusted() || shards_.paused()) return 0;
  if (std::exchange(alone_, alone_ && lanes_.under_way() > 0)) return 0;
  const std::size_t most = allowance(now);
  if (most == 0) return 0;
  if (Lane* const lane = lane_going_alone(); lane && (lane->alone_announced() || may_go_alone()))
    return publish_alone(*lane);
  const std::size_t submitted = publish_others(now, most, turn_end);
  if (submitted > 0) others_first_ = false;
  return submitted;
}

std::size_t Carrier::publish_others(Steady now, std::size_t most, Steady turn_end) {
  // What has failed before would else be all that is ever tried, if there is enough of it.
  const bool fresh_first = breaker_.away() && first_shard_ % 2 == 0;
  std::size_t submitted = 0;
  auto place = std::next(shards_.begin(), static_cast<std::ptrdiff_t>(++first_shard_ % shards_.size()));
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const Shard& shard = place->second;
    if (++place == shards_.end()) place = shards_.begin();
    if (!shard.lane || shard.ending()) continue;
    while (lanes_.under_way() < most) {
      const auto position = shard.lane->next(now, fresh_first);
      if (!position) break;
      if (breaker_.suspicious() && set_aside(*shard.lane, *position, now)) {
        if (breaker_.open()) return submitted;
        continue;
      }
      const bool slow = shard.lane->event(*position).payload_deferred;
      if (!submit(*shard.lane, *position)) return submitted;
      ++submitted;
      if (slow && context_.clock.steady() >= turn_end) return submitted;
    }
  }
  return submitted;
}

// An event that may have killed a relay goes when nothing else does, after a time without it (trial.h): if it was not
// its fault, it comes out. It is announced no sooner: should we die, that counts against the one that was tried and
// none of those that wait.
std::size_t Carrier::publish_alone(Lane& lane) {
  if (lanes_.under_way() > 0) return 0;
  if (!lane.alone_announced()) {
    lane.announce_alone(context_.clock.steady());
    return 1;
  }
  const auto position = lane.next_alone();
  if (!position || !submit(lane, *position)) return 0;
  alone_ = lanes_.under_way() > 0;
  others_first_ = true;
  return 1;
}

// Is an attempt that must stay alone announced or under way, or over and the store does not know yet?
bool Carrier::one_is_alone() const {
  if (alone_ && lanes_.under_way() > 0) return true;
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const auto& place) { return place.second.lane && place.second.lane->one_is_alone(); });
}

bool Carrier::may_go_alone() {
  return !one_is_alone() && !others_turn() && context_.solo.take(waker_);
}

// Another carrier may, if nothing of ours is alone, and will not be in a moment.
void Carrier::give_solo() {
  const bool soon = lane_going_alone() && trusted() && !shards_.paused() && !breaker_.open();
  if (!soon && !one_is_alone()) context_.solo.give(waker_);
}

// After one has gone alone the others may, if there are any: there may be many that go alone, and each may take its
// time, or find the destination away.
bool Carrier::others_turn() {
  others_first_ = others_first_ && std::any_of(shards_.begin(), shards_.end(), [](const auto& place) {
                    const Shard& shard = place.second;
                    return shard.lane && !shard.ending() && (shard.lane->ready() || shard.lane->announcing());
                  });
  return others_first_;
}

// The one lane that has announced such an event, or else one that would.
Lane* Carrier::lane_going_alone() const {
  Lane* found = nullptr;
  for (const auto& [number, shard] : shards_) {
    if (!shard.lane || shard.ending() || !shard.lane->wants_alone()) continue;
    if (shard.lane->alone_announced()) return shard.lane;
    if (!found) found = shard.lane;
  }
  return found;
}

// Puts an event off whose like fail; false if it may go.
bool Carrier::set_aside(Lane& lane, Lane::Position position, Steady now) {
  if (breaker_.admits(source_of(lane.event(position)), !lane.passed(position), now)) return false;
  const auto wait = breaker_.set_aside_for(chance());
  lane.put_back(position, verdict_of_suspicion(lane.row(position), wait, breaker_.reason()).row, now);
  return true;
}

// False if the event cannot go now.
bool Carrier::submit(Lane& lane, Lane::Position position) {
  EventView& event = lane.event(position);
  if (event.expires_at && expire(lane, position)) return true;
  if (event.payload_deferred) {
    const bool room = may_load();
    if (room) load(lane, position);
    if (!room || !trusted()) {  // The leases may have run out while it was loaded.
      lane.again_first(position);
      return false;
    }
    if (event.payload_deferred) {
      carry_out(lane, position, verdict_of_missing(destination_, lane.row(position)), context_.clock.steady());
      return true;
    }
  }
  sink_->submit(event, lanes_.ticket(lane, position));
  return true;
}

// Ends an event whose time is over, by the store's clock; false if it is not. REQUIRES: it may expire
bool Carrier::expire(Lane& lane, Lane::Position position) {
  const EventView& event = lane.event(position);
  if (*event.expires_at > session_->now()) return false;
  const Undelivered row = lane.row(position);
  if (row.ignore_expiry) return false;
  tally_.expired(row.in_doubt);
  ++expired_.events;
  if (row.in_doubt) ++expired_.in_doubt;
  expired_.last = event.id.to_string();
  lane.put_back(position, verdict_of_expiry(row).row, context_.clock.steady());
  return true;
}

// The first at once, then all that came since, now and then.
void Carrier::say_expired(Steady now, bool at_once) {
  if (expired_.events == 0 || (!at_once && now < expired_.next_log)) return;
  context_.log.warning(
      "events have expired and are not delivered; 'dead redrive --standing expired' sends them after all",
      {{"destination", name()},
       {"events", std::to_string(expired_.events)},
       {"may_have_arrived", std::to_string(expired_.in_doubt)},
       {"last", expired_.last}});
  expired_ = {.next_log = now + expired_log_interval};
}

// Is there room for a payload that was left out?
bool Carrier::may_load() const {
  return lanes_.under_way() == 0 || lanes_.bytes() + limits::payload_bytes_max <= context_.options.read_ahead_bytes_max;
}

// If the store has no such event any more, its payload stays deferred.
void Carrier::load(Lane& lane, Lane::Position position) {
  EventView& event = lane.event(position);
  try {
    auto memory = session_->load(event);
    if (!event.payload_deferred) lane.keep(position, std::move(memory));
  } catch (...) {
    lane.again_first(position);  // It is not at the sink, which will not answer for it.
    throw;
  }
}

}  // namespace waybill
