#pragma once

#include <string>
#include <string_view>

#include "waybill/sink.h"

namespace waybill::nats {

// What JetStream answers to a publish.
struct Ack {
  bool stored = false;
  bool duplicate = false;  // Stored, and it had been before.
  bool readable = true;    // Else the rest says nothing.
  int status = 0;          // If it is not stored: as in HTTP,
  int error = 0;           // and which of JetStream's errors it is.
  std::string description{};
  std::string stream{};  // Which stream answered; only if it is not stored.
};

Ack read_ack(std::string_view json);

// What becomes of an event that was not stored. `others_arrive`: a stream has taken other events a moment ago, so that
// what is wrong with the address is wrong with this event's.
struct Refusal {
  Outcome::Kind kind = Outcome::Kind::retry;
  std::string reason{};
};
Refusal refusal(const Ack& ack, std::string_view subject, bool others_arrive);
// The same where nothing listens to the subject: no stream takes it, or JetStream is away.
Refusal refusal_by_nobody(std::string_view subject, bool others_arrive);

}  // namespace waybill::nats
