#pragma once

#include <optional>
#include <string>
#include <vector>

#include "waybill/store.h"
#include "waybill/time.h"

#include "store/sqlite/database.h"

namespace waybill {

// How far a destination is: a row of the table `cursor`.
struct Place {
  std::int64_t turn = 1;
  std::int64_t seq = 0;
  std::optional<std::string> id{};  // Of the event with that number, as the log spells it.
  std::optional<Time> settled_at{};
};

// The row that counts; none: the destination has never been served.
std::optional<Place> newest_place(const Database& state, const std::string& destination);

// The destinations that have a place.
std::vector<std::string> placed_destinations(const Database& state);

// `rules`: by which events were passed; none: the place begins a turn.
void append_place(const Database& state, const std::string& destination, const Place& place, std::int64_t count,
                  std::optional<std::int64_t> rules = {});

// The number of these rules of a destination: that of the newest row of `rules` if it has them, or of a new one.
std::int64_t note_rules(const Database& state, const std::string& destination, const Match& match);

// How an event that the destination has passed was settled, each time that it was: oldest turn first.
std::vector<AppliedRules> passed_by(const Database& state, const std::string& destination, std::int64_t seq);

// When the destination passed the event of this number, last.
std::optional<Time> passed_at(const Database& state, const std::string& destination, std::int64_t seq);

// How many events it has settled since then.
std::int64_t settled_since(const Database& state, const std::string& destination, Time since);

// The id of the event with this number, as the log spells it.
std::optional<std::string> id_in_log(const Database& log, std::int64_t seq);

}  // namespace waybill
