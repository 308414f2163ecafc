#include "relay/keeper.h"

#include <algorithm>
#include <set>
#include <utility>

#include "relay/tally.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

constexpr auto poll_first = 1ms;
// The log has been still for this long: ask to be told instead of asking again.
constexpr auto poll_before_sleep = 8ms;
// Heartbeats for which we are told that leases are free come no faster: everybody who can connect to the database can
// say so.
constexpr auto told_beat_interval = 50ms;

}  // namespace

Keeper::Keeper(const RelayContext& context, Trust& trust, Vitals& vitals, Waker& waker,
               const std::vector<std::unique_ptr<Carrier>>& carriers)
    : context_(context),
      trust_(trust),
      vitals_(vitals),
      waker_(waker),
      carriers_(carriers),
      outage_(context_.log, {"connection", "keeper"}) {}

std::size_t Keeper::turn() {
  const Steady now = context_.clock.steady();
  vitals_.turned(now);
  if (names_.empty())
    for (const auto& carrier : carriers_) names_.push_back(carrier->name());
  if (!membership_ && !outage_.may_try(now)) return 0;
  try {
    if (!membership_) {
      membership_ = context_.store.join(context_.identity);
      reported_.clear();
      next_beat_ = now;
      last_news_ = now;
      spread_news();  // What was committed while nobody listened is not told.
    }
    // Also if the machine has slept meanwhile.
    if (now >= next_beat_ || context_.clock.since_boot() >= trust_.until()) return beat(now);
    if (somebody_waits() && now >= next_poll_) return poll(now);
    return 0;
  } catch (const Error& error) {
    drop_connection(error, now);
    return 0;
  }
}

void Keeper::drop_connection(const Error& error, Steady now) {
  if (!mends_itself(error)) throw error;
  outage_.failed(error, now);
  vitals_.store_away();
  membership_.reset();
  asleep_ = false;
  nothing_free_ = false;
}

// --- Leases

// The trust counts from before the request: a slow answer must not stretch it. It ends a margin before the
// lease does.
std::size_t Keeper::beat(Steady now) {
  const auto lease = context_.identity.lease;
  const Steady sent = context_.clock.since_boot();
  const bool lapsed = sent >= trust_.until();
  last_beat_ = now;
  report_troubles();
  const Pulse pulse = membership_->beat(names_, winding_up_);
  next_beat_ = now + std::min<Steady::duration>({lease / 5, 1s, pulse.next_expiry + 10ms});
  for (const auto& carrier : carriers_) {
    std::vector<Lease> mine;
    for (const Lease& owned : pulse.mine)
      if (owned.destination == carrier->name()) mine.push_back(owned);
    adopt(*carrier, mine);
    carrier->keep_only(std::move(mine));
    if (const auto changes = pulse.changes.find(carrier->name()); changes != pulse.changes.end())
      carrier->note(changes->second, pulse.paused.contains(carrier->name()));
  }
  trust_.extend(sent + lease - lease / 5);  // After keep_only(); see Trust.
  share_out(pulse);
  vitals_.beat(context_.clock.steady());
  outage_.worked();
  if (lapsed) spread_news();  // They have stopped, and wait for nothing in particular.
  return pulse.free.empty() ? 0 : 1;
}

void Keeper::report_troubles() {
  std::vector<Trouble> troubles;
  if (auto text = vitals_.trouble(); !text.empty()) troubles.push_back({.text = presentable(std::move(text))});
  for (const auto& carrier : carriers_)
    if (auto text = carrier->trouble(); !text.empty())
      troubles.push_back({.destination = carrier->name(), .text = std::move(text)});
  if (troubles == reported_) return;
  membership_->report(troubles);
  reported_ = std::move(troubles);
}

// Leases may be ours without our knowing: the answer to a take was lost. Nobody else would ever take them.
void Keeper::adopt(Carrier& carrier, const std::vector<Lease>& mine) const {
  if (winding_up_) return;
  const std::vector<Lease> held = carrier.held();
  std::vector<Lease> unknown;
  for (const Lease& lease : mine)
    if (std::find(held.begin(), held.end(), lease) == held.end()) unknown.push_back(lease);
  if (!unknown.empty()) carrier.grant(unknown);
}

// Every relay that serves a destination carries as many of its shards as any other, give or take one.
std::size_t Keeper::share_of(const Pulse& pulse, const std::string& destination) {
  const auto shards = pulse.shards.find(destination);
  const auto relays = pulse.relays.find(destination);
  if (shards == pulse.shards.end() || relays == pulse.relays.end()) return 0;
  return static_cast<std::size_t>((shards->second + relays->second - 1) / relays->second);
}

void Keeper::share_out(const Pulse& pulse) {
  std::vector<Lease> take;
  for (const auto& carrier : carriers_) {
    const std::size_t share = winding_up_ ? 0 : share_of(pulse, carrier->name());
    give_back_surplus(*carrier, share);
    const auto some = wanted(pulse, *carrier, share);
    take.insert(take.end(), some.begin(), some.end());
  }
  const std::vector<Lease> won = take.empty() ? std::vector<Lease>{} : membership_->take(take);
  for (const auto& carrier : carriers_) {
    std::vector<Lease> grants;
    for (const Lease& lease : won)
      if (lease.destination == carrier->name()) grants.push_back(lease);
    if (!grants.empty()) carrier->grant(grants);
  }
  nothing_free_ = won.size() == pulse.free.size();
}

void Keeper::give_back_surplus(Carrier& carrier, std::size_t share) {
  const std::vector<Lease> kept = carrier.kept();
  std::set<std::int32_t> surplus;
  for (const Lease& lease : kept)
    if (kept.size() - surplus.size() > share) surplus.insert(lease.shard);
  if (!surplus.empty()) carrier.give_back(surplus);
}

std::vector<Lease> Keeper::wanted(const Pulse& pulse, const Carrier& carrier, std::size_t share) const {
  std::vector<Lease> leases;
  const std::size_t held = carrier.held().size();
  for (const Lease& lease : pulse.free) {
    if (held + leases.size() >= share) break;
    if (lease.destination == carrier.name()) leases.push_back(lease);
  }
  return leases;
}

// Others hear that this relay leaves before anything is given back: what is free is then theirs, whoever looks first.
void Keeper::wind_up() {
  winding_up_ = true;
  next_beat_ = context_.clock.steady();
  try {
    turn();
  } catch (const Error&) {  // The next turn says so again.
  }
  for (const auto& carrier : carriers_) give_back_surplus(*carrier, 0);
}

void Keeper::leave() {
  if (!membership_) return;
  try {
    membership_->leave();
  } catch (const Error& error) {
    context_.log.warning("could not say good-bye; the leases will run out by themselves", {{"error", error.what()}});
  }
  membership_.reset();
}

// --- News

std::size_t Keeper::poll(Steady now) {
  const bool useful = asleep_ || events_read() != read_at_last_news_;
  if (membership_->poll()) {
    if (asleep_) rise();
    poll_interval_ =
        useful ? std::chrono::milliseconds(poll_first) : std::min(poll_interval_ * 2, context_.options.poll_busy);
    read_at_last_news_ = events_read();
    last_news_ = now;
    next_poll_ = now + poll_interval_;
    spread_news();
    return 1;
  }
  poll_interval_ = asleep_ ? context_.options.poll_idle : std::min(poll_interval_ * 2, longest_pause(now));
  next_poll_ = now + poll_interval_;
  if (!asleep_ && poll_interval_ >= std::min<std::chrono::milliseconds>(poll_before_sleep, context_.options.poll_busy))
    try_to_sleep(now);
  return 0;
}

// Between the last poll and the moment from which news are told something may have been committed: one more
// poll.
void Keeper::try_to_sleep(Steady now) {
  const Membership::Sleep sleep = membership_->sleep();
  never_told_ = sleep == Membership::Sleep::never;
  asleep_ = sleep == Membership::Sleep::told;
  if (!asleep_) return;
  next_poll_ = now + context_.options.poll_idle;
  if (!membership_->poll()) return;
  rise();
  read_at_last_news_ = events_read();
  next_poll_ = now + poll_first;
  spread_news();
}

// Who is never told must ask; but not often for nothing: an event that comes after a silence waits for a tenth of it at
// most.
std::chrono::milliseconds Keeper::longest_pause(Steady now) const {
  const auto& options = context_.options;
  if (!never_told_) return options.poll_busy;
  const auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(now - last_news_);
  return std::clamp(silence / 10, options.poll_busy, std::max(options.poll_busy, options.poll_idle));
}

void Keeper::rise() {
  poll_interval_ = poll_first;
  if (!asleep_) return;
  asleep_ = false;
  membership_->rise();
}

void Keeper::spread_news() {
  for (const auto& carrier : carriers_) carrier->news();
}

bool Keeper::somebody_waits() const {
  return std::any_of(carriers_.begin(), carriers_.end(), [](const auto& carrier) { return carrier->waits(); });
}

std::uint64_t Keeper::events_read() const {
  std::uint64_t sum = 0;
  for (const auto& carrier : carriers_) sum += carrier->read();
  return sum;
}

void Keeper::wait(Steady deadline) {
  if (!membership_) {
    waker_.wait(std::min(deadline, outage_.next_try()));
    return;
  }
  deadline = std::min(deadline, next_beat_);
  if (somebody_waits()) deadline = std::min(deadline, next_poll_);
  try {
    hear(membership_->wait(waker_, deadline));
  } catch (const Error& error) {
    drop_connection(error, context_.clock.steady());
  }
}

void Keeper::hear(Membership::Told told) {
  const Steady now = context_.clock.steady();
  if (told == Membership::Told::leases)
    next_beat_ = std::min(next_beat_, std::max<Steady>(now, last_beat_ + told_beat_interval));
  if (told != Membership::Told::news) return;
  read_at_last_news_ = events_read();
  rise();
  next_poll_ = now + poll_first;
  spread_news();
}

}  // namespace waybill
