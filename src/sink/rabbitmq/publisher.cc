#include "sink/rabbitmq/publisher.h"

#include <algorithm>
#include <charconv>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/assert.h"
#include "base/error_text.h"
#include "sink/rabbitmq/prepare.h"

namespace waybill::rabbitmq {
namespace {

using Kind = Outcome::Kind;

// More is not made ready to be written than the system takes at once, or so: it would only wait in another place.
constexpr std::size_t unwritten_bytes_max = std::size_t{256} * 1024;

// "message size 2000000 is larger than configured max size 1048576": the last number; 0 if that is not what it says.
std::size_t size_limit_in(const Refusal& refusal) {
  if (refusal.code != AMQP_PRECONDITION_FAILED || refusal.text.find("message size") == std::string::npos) return 0;
  const auto last = refusal.text.find_last_of("0123456789");
  if (last == std::string::npos) return 0;
  const auto before = refusal.text.find_last_not_of("0123456789", last);
  const auto first = before == std::string::npos ? 0 : before + 1;
  std::size_t limit = 0;
  std::from_chars(refusal.text.data() + first, refusal.text.data() + last + 1, limit);
  return limit;
}

}  // namespace

Publisher::Publisher(const RabbitmqOptions& options, const net::Host& host, const net::Patience& patience,
                     Dresser& dresser, Steady deadline)
    : options_(options), dresser_(dresser), connection_(options, host, patience, deadline) {
  prepare(connection_, options, deadline);
}

// --- Sending

bool Publisher::has_room() const {
  return connection_.blocked().empty() && connection_.output().unwritten() < unwritten_bytes_max;
}

void Publisher::publish(const EventView& event, std::uint64_t ticket, Outcomes& outcomes, Steady now) {
  std::string refusal;
  try {
    refusal = dresser_.dress(event);
  } catch (const std::bad_alloc&) {
    throw;  // It is no event's fault.
  } catch (const std::exception& failure) {
    outcomes.push_back({.ticket = ticket, .kind = Kind::retry, .reason = "cannot be encoded: " + error_text(failure)});
    return;
  }
  if (refusal.empty())
    refusal = connection_.writer().append_message(connection_.output().end(), Connection::channel, dresser_.exchange(),
                                                  dresser_.routing_key(), dresser_.message());
  if (!refusal.empty()) {
    outcomes.push_back({.ticket = ticket, .kind = Kind::rejected, .reason = std::move(refusal), .unsent = true});
    return;
  }
  tracker_.add({.ticket = ticket,
                .id = event.id,
                .exchange = options_.exchange_is_fixed ? std::string() : dresser_.exchange(),
                .body_bytes = dresser_.message().body.size(),
                .end = connection_.output().appended(),
                .since = waiting_clock(now)});
}

void Publisher::work(Outcomes& outcomes, Steady now) {
  receive(outcomes);
  note_blocked(now);
  try {
    connection_.flush();
  } catch (const Error&) {
    receive(outcomes);  // What was confirmed before the connection broke, and why it did.
    throw;
  }
  connection_.attend(now);
  if (!tracker_.empty() && waiting_clock(now) - tracker_.oldest().since >= options_.confirm_timeout)
    throw Error(
        Remedy::retry,
        fmt::format("{}: no confirmation within {} ms (confirm_timeout); the connection is closed, and what waits "
                    "for one is sent again under its id",
                    where(), options_.confirm_timeout.count()));
}

Steady Publisher::work_at(Steady now) const {
  Steady at = connection_.attend_at();
  if (!tracker_.empty() && !held_off_)
    at = std::min(at, now + (tracker_.oldest().since + options_.confirm_timeout - waiting_clock(now)));
  return at;
}

// Stands still while the broker holds us off: what it has taken it confirms only afterwards.
Steady Publisher::waiting_clock(Steady now) const {
  return now - held_off_for_ - (held_off_ ? now - held_off_since_ : Steady::duration{});
}

void Publisher::note_blocked(Steady now) {
  const bool blocked = !connection_.blocked().empty();
  if (blocked == held_off_) return;
  if (blocked) {
    held_off_since_ = now;
  } else {
    held_off_for_ += now - held_off_since_;
  }
  held_off_ = blocked;
}

// --- Receiving

void Publisher::receive(Outcomes& outcomes) {
  amqp_frame_t frame{};
  while (connection_.next(frame)) take(frame, outcomes);
}

void Publisher::take(const amqp_frame_t& frame, Outcomes& outcomes) {
  if (frame.frame_type != AMQP_FRAME_METHOD) return take_return(frame);
  const amqp_method_t& method = frame.payload.method;
  if (method.id == AMQP_BASIC_ACK_METHOD) {
    const auto& ack = *static_cast<const amqp_basic_ack_t*>(method.decoded);
    confirmed(ack.delivery_tag, ack.multiple != 0, true, outcomes);
  } else if (method.id == AMQP_BASIC_NACK_METHOD) {
    const auto& nack = *static_cast<const amqp_basic_nack_t*>(method.decoded);
    confirmed(nack.delivery_tag, nack.multiple != 0, false, outcomes);
  } else if (method.id == AMQP_CHANNEL_CLOSE_METHOD) {
    const auto& close = *static_cast<const amqp_channel_close_t*>(method.decoded);
    channel_closed({.code = close.reply_code, .text = std::string(text_of(close.reply_text))}, outcomes);
  }
}

// The frames of a returned message come before its confirmation: nothing else has a content on a channel that only
// publishes. It is recognised by its id; a `return` has no number.
void Publisher::take_return(const amqp_frame_t& frame) {
  if (frame.frame_type != AMQP_FRAME_HEADER) return;
  const auto* properties = static_cast<const amqp_basic_properties_t*>(frame.payload.properties.decoded);
  const auto id = properties ? EventId::parse(text_of(properties->message_id)) : std::nullopt;
  if (!id || !tracker_.give_back(*id))
    throw Error(Remedy::retry, fmt::format("{}: it gives back a message that was not sent", where()));
}

void Publisher::confirmed(std::uint64_t number, bool multiple, bool good, Outcomes& outcomes) {
  any_answered_ = true;
  const bool known = tracker_.confirm(number, multiple, [&](const Sent& sent) {
    Outcome outcome{.ticket = sent.ticket};
    if (sent.returned) {
      outcome.kind = Kind::retry;
      outcome.reason = fmt::format(
          "unroutable: no queue is bound to exchange '{}' for its routing key (or the queue was just deleted); bind "
          "one, "
          "or mend routing_key; `waybill route test` shows the key",
          options_.exchange_is_fixed ? options_.fixed_exchange : sent.exchange);
    } else if (!good) {
      outcome.kind = Kind::retry;
      outcome.reason = fmt::format(
          "{}: refused by the queue (nack): it is full (max-length with reject-publish) or has "
          "lost its majority; look at the queue",
          where());
    }
    outcomes.push_back(std::move(outcome));
  });
  if (!known)
    throw Error(Remedy::retry, fmt::format("{}: it confirms message {}, which was not sent", where(), number));
}

// --- The end

void Publisher::lost(const std::string& reason, Outcomes& outcomes) {
  tracker_.abandon([&](const Sent& sent) {
    const bool maybe = has_arrived_maybe(sent);
    outcomes.push_back({.ticket = sent.ticket,
                        .kind = maybe ? Kind::unknown : Kind::unavailable,
                        .reason = maybe ? "sent, but not confirmed: " + reason : reason});
  });
}

// The broker closes the channel at the first message that it refuses, and drops those behind it without a word.
void Publisher::channel_closed(const Refusal& refusal, Outcomes& outcomes) {
  if (const std::size_t limit = size_limit_in(refusal); limit > 0) dresser_.learn(limit);
  const bool alone = tracker_.size() == 1;
  tracker_.abandon([&](const Sent& sent) { outcomes.push_back(outcome_of_refused(sent, refusal, alone)); });
  connection_.close(std::chrono::steady_clock::now() + std::chrono::milliseconds(200));
  throw Error(Remedy::fix_config, fmt::format("{}: {}", where(), describe(refusal)));
}

Outcome Publisher::outcome_of_refused(const Sent& sent, const Refusal& refusal, bool alone) const {
  const auto outcome = [&](Kind kind, std::string reason) {
    return Outcome{.ticket = sent.ticket, .kind = kind, .reason = std::move(reason)};
  };
  const std::string reason = fmt::format("{}: the broker has closed the channel: {}", where(), describe(refusal));
  if (size_limit_in(refusal) > 0 && sent.body_bytes > dresser_.bytes_max())
    return outcome(Kind::rejected, too_large(sent.body_bytes, dresser_.bytes_max()));
  const bool its_own_exchange =
      !options_.exchange_is_fixed && refusal.text.find(fmt::format("'{}'", sent.exchange)) != std::string::npos;
  const bool about_exchange = refusal.code == AMQP_NOT_FOUND || refusal.code == AMQP_ACCESS_REFUSED;
  if (about_exchange && its_own_exchange)
    return outcome(Kind::retry, reason + "; make the exchange, or give the user the permission to write to it");
  if (!has_arrived_maybe(sent)) return outcome(Kind::unavailable, reason);
  // Nothing was ever taken on this channel, and everything goes to the exchange that it was closed for: this did not
  // arrive either. An event is not to be blamed, however often that happens.
  if (about_exchange && options_.exchange_is_fixed && !any_answered_)
    return outcome(Kind::unavailable, reason + "; make the exchange, or give the user the permission to write to it");
  // Whatever it is, it is about this one.
  if (refusal.code == AMQP_PRECONDITION_FAILED && alone) return outcome(Kind::retry, reason);
  return outcome(Kind::unknown, "sent, but not confirmed: " + reason);
}

}  // namespace waybill::rabbitmq
