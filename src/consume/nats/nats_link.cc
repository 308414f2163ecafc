#include "consume/nats/nats_link.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/json_text.h"
#include "broker/nats/jetstream.h"
#include "consume/nats/place.h"
#include "message/binding.h"
#include "message/text.h"

namespace waybill::nats {
namespace {

using namespace std::chrono_literals;

constexpr auto ask_for = 10s;         // So long the server remembers what was asked for.
constexpr auto ask_grace = 2s;        // After so much longer it has not told us that it does no more.
constexpr auto ask_again_in = 300ms;  // After something went wrong with it.
constexpr int progress_per_wait = 3;
constexpr auto ack_wait_least = 100ms;  // Whatever the server says: signs of life must not take all our time.
// What was asked for may still come when the server has been asked again.
constexpr std::size_t open_per_prefetch = 2;
constexpr std::size_t uuid_bytes = 36;
constexpr std::size_t reason_bytes_max = 200;

enum Status { status_alive = 100, status_no_messages = 404, status_timeout = 408, status_no_responders = 503 };

// The id of an event that was sent again by a person has an ending of its own there.
std::string event_id_in(const std::string& message_id) {
  if (message_id.size() > uuid_bytes && message_id.compare(uuid_bytes, 2, "-r") == 0 &&
      EventId::parse(message_id.substr(0, uuid_bytes)))
    return message_id.substr(0, uuid_bytes);
  return message_id;
}

Incoming read_message(const Frame& frame, const Place& place, std::size_t bytes_max) {
  Incoming incoming{.timestamp = place.stored, .address = std::string(frame.subject), .deliveries = place.deliveries};
  const std::size_t bytes = frame.headers.size() + frame.data.size();
  if (bytes > bytes_max) {
    incoming.unreadable = fmt::format(
        "the message cannot be read: it has {} bytes, and at most {} are taken in "
        "(message_bytes_max)",
        bytes, bytes_max);
    return incoming;
  }
  incoming.headers = read_headers(frame.headers);
  decode_lines(incoming.headers);
  incoming.body = frame.data;
  for (const Header& header : incoming.headers) {
    if (same_letters(header.name, "Nats-Msg-Id")) incoming.id = event_id_in(header.value);
    if (same_letters(header.name, "content-type")) incoming.content_type = header.value;
  }
  return incoming;
}

}  // namespace

NatsLink::NatsLink(const NatsSourceOptions& options, const NatsServers& servers, const net::Host& server,
                   bool may_create, const net::Patience& patience, Steady deadline)
    : options_(options),
      heartbeat_(servers.heartbeat),
      connection_(servers, server, patience, deadline),
      inbox_(connection_.subscribe("pull", [this](const Frame& frame) { hear(frame); })),
      ask_subject_(
          api_subject(options.domain, fmt::format("CONSUMER.MSG.NEXT.{}.{}", options.stream, options.durable))) {
  ack_wait_ = std::max<std::chrono::nanoseconds>(find_or_create(connection_, options, may_create, deadline).ack_wait,
                                                 ack_wait_least);
  keeps_rejected_ = options.reject || keeps_terminated(connection_, options, deadline);
  connection_.take_violations();  // Whoever may not look at the stream does without.
}

// --- Messages

void NatsLink::hear(const Frame& frame) {
  // What is in the stream may have been given a status by whoever published it; only the server's has no place there.
  const auto place = read_place(frame.reply_to);
  if (!place && frame.status != 0) return hear_status(frame);
  if (!place || !come_) return;
  if (asked_for_ > 0) --asked_for_;
  if (open_.size() >= open_per_prefetch * options_.prefetch)
    throw Error(Remedy::retry,
                fmt::format("it hands out more messages than were asked for (prefetch: {})", options_.prefetch));
  Incoming incoming = read_message(frame, *place, options_.message_bytes_max);
  incoming.ticket = ++last_number_;
  open_[last_number_] = frame.reply_to;
  come_->push_back(std::move(incoming));
}

// What was asked for is over, for this reason or that.
void NatsLink::hear_status(const Frame& frame) {
  if (frame.status == status_no_responders)
    throw Error(Remedy::retry, fmt::format("nobody hands out messages of consumer '{}' of stream '{}': it was deleted, "
                                           "or JetStream is away",
                                           options_.durable, options_.stream));
  if (frame.status == status_alive) return;
  asked_for_ = 0;
  if (frame.status == status_no_messages || frame.status == status_timeout) return;
  const bool may_pass = frame.status_text == "Leadership Change" || frame.status_text == "Batch Completed" ||
                        frame.status_text == "Exceeded MaxWaiting";
  if (!may_pass)
    throw Error(Remedy::retry, fmt::format("no messages are handed out by consumer '{}' of stream '{}': {} ({})",
                                           options_.durable, options_.stream, frame.status_text, frame.status));
  ask_at_ = std::chrono::steady_clock::now() + ask_again_in;
}

void NatsLink::settle(std::uint64_t number, std::string_view how) {
  const auto at = open_.find(number);
  if (at == open_.end()) return;
  connection_.publish(at->second, "", how);
  open_.erase(at);
}

void NatsLink::accept(std::uint64_t number) {
  settle(number, "+ACK");
}

void NatsLink::reject(std::uint64_t number, const std::string& reason) {
  // An older server would not know what is meant.
  if (!connection_.is_at_least(2, 11)) return settle(number, "+TERM");
  std::string text = reason.substr(0, reason_bytes_max);
  while (!text.empty() && !is_text(text)) text.pop_back();
  settle(number, "+TERM " + text);
}

// --- Work

void NatsLink::work(std::vector<Incoming>& come, Steady now) {
  come_ = &come;
  show_progress(now);
  ask_for_more(now);
  bool more = true;
  while (more) more = connection_.move({});
  come_ = nullptr;
  if (auto refused = connection_.take_violations(); !refused.empty())
    throw Error(Remedy::retry, fmt::format("{}: {}", connection_.where(), refused.front()));
  attend(now);
}

void NatsLink::ask_for_more(Steady now) {
  if (now >= asked_until_ + ask_grace) asked_for_ = 0;
  if (asked_for_ > 0 || now < ask_at_ || open_.size() >= options_.prefetch) return;
  asked_for_ = options_.prefetch - open_.size();
  asked_until_ = now + ask_for;
  connection_.publish(
      ask_subject_, inbox_,
      fmt::format(R"({{"batch":{},"expires":{}}})", asked_for_, std::chrono::nanoseconds(ask_for).count()));
}

void NatsLink::show_progress(Steady now) {
  if (now < progress_at_) return;
  for (const auto& [number, subject] : open_) connection_.publish(subject, "", "+WPI");
  progress_at_ = now + std::chrono::duration_cast<Steady::duration>(ack_wait_ / progress_per_wait);
}

void NatsLink::attend(Steady now) {
  if (connection_.is_lame())
    throw Error(Remedy::retry, fmt::format("{}: the server is about to stop", connection_.where()));
  if (now - connection_.heard() < heartbeat_) {
    pinged_ = {};
  } else if (pinged_ == Steady()) {
    connection_.ping();
    pinged_ = now;
  } else if (now - pinged_ >= heartbeat_) {
    throw Error(Remedy::retry,
                fmt::format("{}: no sign of life for {} ms", connection_.where(), 2 * heartbeat_.count()));
  }
}

Steady NatsLink::work_at() const {
  Steady at = pinged_ == Steady() ? connection_.heard() + heartbeat_ : pinged_ + heartbeat_;
  if (!open_.empty()) at = std::min(at, progress_at_);
  if (open_.size() >= options_.prefetch) return at;
  return std::min(at, asked_for_ > 0 ? asked_until_ + ask_grace : ask_at_);
}

void NatsLink::close(Steady deadline) noexcept try {
  std::vector<Incoming> late;
  come_ = &late;
  // What is given back must not be handed out to what we have asked for before.
  connection_.unsubscribe();
  connection_.finish(deadline);
  give_back();
  connection_.finish(deadline);
} catch (const std::exception&) {
  return;  // What was not said comes again after ack_wait.
}

// In their order, so that whoever is next gets them in it.
void NatsLink::give_back() {
  while (!open_.empty()) settle(open_.begin()->first, "-NAK");
}

}  // namespace waybill::nats
