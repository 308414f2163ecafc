#pragma once

#include "waybill/relay.h"
#include "waybill/sink.h"
#include "waybill/store.h"

namespace waybill {

// How an event stands after an attempt that did not deliver it.
struct Verdict {
  Undelivered row{};
  bool bury_key = false;  // And all that wait behind it are dead.
};

// `row`: as it was during the attempt, which is counted. `chance`: a random number in [0, 1).
// REQUIRES: the outcome is retry, rejected or unknown.
Verdict verdict(const DestinationOptions& destination, const EventView& event, Undelivered row, const Outcome& outcome,
                double chance);

// The same for an attempt that was not the event's fault: it does not count, and the event is not buried.
Verdict verdict_of_not_guilty(const DestinationOptions& destination, Undelivered row, const Outcome& outcome,
                              double chance);

// The same for an attempt that the relay which made it did not survive. Deaths on trial (trial.h) count against the
// event, until it is held; others do not, and are not counted as attempts.
Verdict verdict_after_crash(const DestinationOptions& destination, Undelivered row);

// The same for an attempt whose answer had not been saved when the relay lost its connection to the store.
Verdict verdict_after_break(const DestinationOptions& destination, Undelivered row, double chance);

// It is not tried for a while, since others like it fail: the attempt that was to begin is not made.
Verdict verdict_of_suspicion(Undelivered row, std::chrono::milliseconds wait, const std::string& why);

// Its time is over: the attempt that was to begin is not made.
Verdict verdict_of_expiry(Undelivered row);

// Its event is nowhere in the store, so that it cannot be sent: it waits for a person.
Verdict verdict_of_missing(const DestinationOptions& destination, Undelivered row);

}  // namespace waybill
