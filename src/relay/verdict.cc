#include "relay/verdict.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "model/retry.h"
#include "relay/trial.h"

namespace waybill {
namespace {

// Cut where a character begins.
std::string bounded(std::string text) {
  if (text.size() <= limits::error_bytes_max) return text;
  std::size_t end = limits::error_bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text;
}

bool was_the_last(const DestinationOptions& destination, const EventView& event, const Undelivered& row) {
  const int most = event.attempts_max.value_or(destination.retry.attempts);
  return most > 0 && row.attempts >= most;
}

Verdict dead(const DestinationOptions& destination, Undelivered row) {
  row.standing = Standing::dead;
  row.blocks = row.key != 0 && destination.on_dead == OnDead::block;
  const bool bury_key = row.key != 0 && destination.on_dead == OnDead::bury_key;
  return {.row = std::move(row), .bury_key = bury_key};
}

Verdict held(const DestinationOptions& destination, Undelivered row) {
  row.standing = Standing::held;
  row.blocks = row.key != 0 && destination.on_dead != OnDead::go_on;
  return {.row = std::move(row)};
}

Verdict again(const DestinationOptions& destination, Undelivered row, double chance) {
  row.standing = Standing::retrying;
  row.blocks = row.key != 0;
  row.wait = retry_delay(destination.retry, std::max(row.attempts, 1), chance);
  return {.row = std::move(row)};
}

}  // namespace

Verdict verdict(const DestinationOptions& destination, const EventView& event, Undelivered row, const Outcome& outcome,
                double chance) {
  WAYBILL_ASSERT(outcome.kind != Outcome::Kind::delivered && outcome.kind != Outcome::Kind::unavailable);
  row.sending = Undelivered::Sending::no;
  row.crashes = 0;
  row.blamed = 0;
  row.error = bounded(outcome.reason);
  row.in_doubt = row.in_doubt || outcome.kind == Outcome::Kind::unknown;
  if (outcome.kind == Outcome::Kind::unknown && destination.on_unknown == OnUnknown::hold)
    return held(destination, std::move(row));
  if (outcome.kind == Outcome::Kind::rejected || was_the_last(destination, event, row))
    return dead(destination, std::move(row));
  return again(destination, std::move(row), chance);
}

Verdict verdict_of_not_guilty(const DestinationOptions& destination, Undelivered row, const Outcome& outcome,
                              double chance) {
  row.sending = Undelivered::Sending::no;
  row.crashes = 0;
  row.blamed = 0;
  row.error = bounded(outcome.reason);
  row.in_doubt = row.in_doubt || outcome.kind == Outcome::Kind::unknown;
  if (outcome.kind == Outcome::Kind::unknown && destination.on_unknown == OnUnknown::hold)
    return held(destination, std::move(row));
  row.attempts = std::max(row.attempts - 1, 0);
  return again(destination, std::move(row), chance);
}

// Only a death on trial says something of the event; no other counts as an attempt. The next control is its delay.
Verdict verdict_after_crash(const DestinationOptions& destination, Undelivered row) {
  const bool counts = row.sending == Undelivered::Sending::on_trial;
  row.sending = Undelivered::Sending::no;
  ++row.crashes;
  row.in_doubt = true;
  row.error = fmt::format("the relay that was sending it ended; {} in a row", row.crashes);
  if (destination.on_unknown == OnUnknown::hold) return held(destination, std::move(row));
  if (counts) {
    ++row.blamed;
    if (row.blamed >= trial::blamed_max) {
      row.error = fmt::format(
          "{} of the last {} relays that sent it died soon after, with nothing else under way to the destination; each "
          "had worked longer without it",
          row.blamed, row.crashes);
      return held(destination, std::move(row));
    }
  } else {
    row.attempts = std::max(row.attempts - 1, 0);
  }
  row.standing = Standing::retrying;
  row.blocks = row.key != 0;
  row.wait = {};
  return {.row = std::move(row)};
}

Verdict verdict_after_break(const DestinationOptions& destination, Undelivered row, double chance) {
  row.sending = Undelivered::Sending::no;
  row.error = "the connection to the store broke while it was sent";
  row.in_doubt = true;
  if (destination.on_unknown == OnUnknown::hold) return held(destination, std::move(row));
  row.attempts = std::max(row.attempts - 1, 0);
  return again(destination, std::move(row), chance);
}

Verdict verdict_of_suspicion(Undelivered row, std::chrono::milliseconds wait, const std::string& why) {
  row.standing = Standing::retrying;
  row.blocks = row.key != 0;
  row.sending = Undelivered::Sending::no;
  row.attempts = std::max(row.attempts - 1, 0);
  row.wait = wait;
  row.error = bounded("not tried now: " + why);
  return {.row = std::move(row)};
}

Verdict verdict_of_expiry(Undelivered row) {
  row.standing = row.in_doubt ? Standing::expired_unknown : Standing::expired;
  row.blocks = false;
  row.sending = Undelivered::Sending::no;
  row.attempts = std::max(row.attempts - 1, 0);
  return {.row = std::move(row)};
}

Verdict verdict_of_missing(const DestinationOptions& destination, Undelivered row) {
  row.sending = Undelivered::Sending::no;
  row.error =
      "its event is neither in the log nor kept; it may have been deleted by hand. Dismiss it, or restore the event "
      "and redrive it";
  return held(destination, std::move(row));
}

}  // namespace waybill
