#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "waybill/api.h"
#include "waybill/event.h"
#include "waybill/time.h"

namespace WAYBILL_API waybill {

// What became of one submitted event.
struct Outcome {
  enum class Kind {
    delivered,    // The destination has it, as safely as it can promise.
    retry,        // Not this time, and it is this event's own affair: later again.
    rejected,     // Never acceptable as it is.
    unavailable,  // The destination is away; no event's fault.
    unknown,      // It may have arrived.
  };
  std::uint64_t ticket = 0;  // As given to submit.
  Kind kind = Kind::delivered;
  std::string reason{};   // Empty iff delivered. For people; never parsed; holds no payload.
  bool repeated = false;  // Delivered, and the destination says that it had it already.
  bool unsent = false;  // Rejected by the sink itself before anything was sent: it says nothing about the destination.
};

std::string_view to_string(Outcome::Kind kind);

// A Sink delivers events to one destination. Used by one thread at a time.
// It may be asked to close at any moment; what it has not answered by then counts as not delivered.
class Sink {
 public:
  virtual ~Sink() = default;

  // Takes an event on its way and returns at once. `event` and what it points to stay valid until its outcome
  // has been collected or close() has returned. Never throws for what the destination did. REQUIRES: fewer
  // than in_flight_max() events are without an outcome.
  virtual void submit(const EventView& event, std::uint64_t ticket) = 0;

  // Appends outcomes, in any order, each ticket once. Returns as soon as there is one, at `deadline`
  // otherwise.
  virtual void collect(std::vector<Outcome>& outcomes, Steady deadline) = 0;

  // How many events it will hold without an outcome.
  virtual std::size_t in_flight_max() const { return 1000; }

  // Until when the certificates hold that the last connection rested on; none: there is no such thing here. May be
  // called from any thread.
  virtual std::optional<Time> trusted_until() const { return std::nullopt; }

  // After an outage: can it be reached again? `delivered` for yes. The default finds out by the next event.
  virtual Outcome probe(Steady deadline);

  // Lets go of everything by `deadline`. May be submitted to again afterwards, as if it was new.
  virtual void close(Steady deadline);
};

// The result of a function given to sink_from(): an Outcome::Kind alone, or with the reason that people are shown.
//
//   return Outcome::Kind::delivered;
//   return {Outcome::Kind::rejected, "the address has no postcode"};
struct CallResult {
  CallResult(Outcome::Kind what, std::string why = {}) : kind(what), reason(std::move(why)) {}

  Outcome::Kind kind;
  std::string reason;  // As Outcome::reason: shown in status, log and dead letters, so without payloads or secrets.
};

// A sink that calls `deliver` for one event after another. An exception counts as `retry`, with its text as the reason.
std::unique_ptr<Sink> sink_from(std::function<CallResult(const EventView&)> deliver);

}  // namespace waybill
