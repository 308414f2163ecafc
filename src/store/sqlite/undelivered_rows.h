#pragma once

#include <functional>
#include <optional>
#include <string>

#include "waybill/store.h"

#include "store/sqlite/database.h"
#include "store/sqlite/event_rows.h"

namespace waybill {

// A row of the table `undelivered`.
struct UndeliveredRow {
  std::string destination{};
  Undelivered row{};
  std::string id{};
  Time since{};
  Time due{};
  std::int32_t redrives = 0;
  std::optional<std::string> payload{};  // In place of what the event says.
  std::optional<std::string> headers{};
};

// The columns that undelivered_row reads, for a SELECT.
extern const std::string_view undelivered_columns;
UndeliveredRow undelivered_row(const Query& row, Time now);

std::int64_t microseconds(Time time);

// Finds events by their numbers: in the log, or where clean has put them.
class EventFinder {
 public:
  EventFinder(const Database& log, const Database& state);
  // Adds the event to `rows`. False: it is nowhere.
  bool add(std::int64_t seq, EventRows& rows);

 private:
  Query in_log_;
  Query kept_;
};

// Visits the rows of the filter, whatever its limit, in the order of their numbers until `visit` returns false.
// `condition`: SQL that they must meet besides.
void each_undelivered(const Database& state, EventFinder& finder, const UndeliveredFilter& filter,
                      std::string_view condition, bool newest_first,
                      const std::function<bool(const UndeliveredRow&)>& visit);

UndeliveredList list_undelivered(const Database& log, const Database& state, const UndeliveredFilter& filter);
std::vector<BlockedKeyView> list_blocked_keys(const Database& log, const Database& state,
                                              const std::string& destination, int limit);
// How a destination stands with what it was not sent.
void count_undelivered(const Database& state, DestinationStatus& destination);
std::vector<Attempt> attempts_at(const Database& state, const std::string& destination, std::int64_t seq);

}  // namespace waybill
