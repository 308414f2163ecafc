#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "waybill/event.h"
#include "waybill/sink.h"
#include "waybill/time.h"

#include "broker/rabbitmq/connection.h"
#include "sink/rabbitmq/confirm_tracker.h"
#include "sink/rabbitmq/dresser.h"

namespace waybill::rabbitmq {

// A Publisher sends messages through one connection and knows what became of each. When anything throws, the connection
// is over: lost() says what that means for what was under way. One thread.
//
// What was under way is `unknown` if the system had taken its last byte, for it may have arrived and only its
// confirmation be lost; `unavailable` if it had not, for a broker drops half a message.
class Publisher {
 public:
  using Outcomes = std::vector<Outcome>;

  // Connected, logged in, and everything declared, by `deadline`. What is referred to must outlive it.
  Publisher(const RabbitmqOptions& options, const net::Host& host, const net::Patience& patience, Dresser& dresser,
            Steady deadline);

  // May more be published now? Not while the broker holds us off, or does not read what there is already.
  bool has_room() const;
  void publish(const EventView& event, std::uint64_t ticket, Outcomes& outcomes, Steady now);

  // Writes and reads what is possible, sends heartbeats, looks whether a confirmation is overdue.
  void work(Outcomes& outcomes, Steady now);
  // When work() has something to do though nothing comes.
  Steady work_at(Steady now) const;

  // The connection is over.
  void lost(const std::string& reason, Outcomes& outcomes);
  // The connection is to end; what is under way does not matter.
  void close(Steady deadline) noexcept { connection_.close(deadline); }

  const std::string& blocked() const { return connection_.blocked(); }
  const std::string& where() const { return connection_.where(); }
  std::optional<Time> trusted_until() const { return connection_.trusted_until(); }
  int fd() const { return connection_.fd(); }
  bool waits_for_room() const { return connection_.waits_for_room(); }

 private:
  void receive(Outcomes& outcomes);
  void take(const amqp_frame_t& frame, Outcomes& outcomes);
  void take_return(const amqp_frame_t& frame);
  void confirmed(std::uint64_t number, bool multiple, bool good, Outcomes& outcomes);
  void channel_closed(const Refusal& refusal, Outcomes& outcomes);
  Outcome outcome_of_refused(const Sent& sent, const Refusal& refusal, bool alone) const;
  bool has_arrived_maybe(const Sent& sent) const { return sent.end <= connection_.output().written(); }
  Steady waiting_clock(Steady now) const;
  void note_blocked(Steady now);

  const RabbitmqOptions& options_;
  Dresser& dresser_;
  Connection connection_;
  ConfirmTracker tracker_;
  bool any_answered_ = false;
  bool held_off_ = false;  // as of the last look
  Steady held_off_since_{};
  Steady::duration held_off_for_{};  // before that
};

}  // namespace waybill::rabbitmq
