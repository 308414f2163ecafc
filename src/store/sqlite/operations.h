#pragma once

#include <optional>
#include <string>
#include <vector>

#include "waybill/store.h"

#include "store/sqlite/database.h"

// What people did, for the record, and how relays come to know of it. Each within the caller's transaction.
namespace waybill {

// When the operation was begun; now, if it is not recorded yet. It touches nothing that has died since.
Time begin_of_operation(const Database& state, const Operation& operation, Time now);
// How many events the operation has touched; none: it is not recorded yet.
std::optional<std::int64_t> events_of_operation(const Database& state, const Operation& operation);

// Error(fix_input) if it was begun as another kind, or for another destination.
void require_same_operation(const Database& state, const Operation& operation, const OperationView& what);

// Records it, or adds to its events. Of `what` the kind, the destination, the details and the events count.
void record_operation(const Database& state, const Operation& operation, const OperationView& what);

std::vector<OperationView> list_operations(const Database& state, int limit);

// The relay is to look again at what waits for this destination.
void note_change(const Database& state, const std::string& destination);
// And to begin anew with it: what it has read or is sending now is not settled.
void take_lease_away(const Database& state, const std::string& destination);

}  // namespace waybill
