#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Places in a log whose events have consecutive numbers, as a Follower hands them out: "HISTORY.NUMBER".
namespace waybill {

// Why a place is refused, and the way to go on; the same for every store.
inline constexpr std::string_view no_place = "this is no place in the log; begin at the beginning, or now";
inline constexpr std::string_view place_of_another_history =
    "this place is of another history of the log: the database was restored, copied or failed over since, and other "
    "events may have taken the place of those that followed; begin at the beginning, or now";
inline constexpr std::string_view place_was_cleaned =
    "the log does not reach back to this place any more: events that followed it were cleaned; begin at the beginning "
    "of "
    "what is left, or now";

std::string numbered_place(std::string_view history, std::int64_t number);

// The number of a place; of an empty one, 0. Throws Error(fix_input) if it is none, lies behind `last`, or is of
// another history.
std::int64_t parse_numbered_place(std::string_view place, std::string_view history, std::int64_t last);

}  // namespace waybill
