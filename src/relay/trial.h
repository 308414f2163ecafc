#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "waybill/time.h"

namespace waybill {

// Which event is to blame when relays die? A relay that is killed from outside dies whatever it is sending; a relay
// that an event kills dies when it sends that event, and lives while it does not. So an event that was under way when a
// relay died is a suspect, and goes alone, in three steps:
//
//   control   The relay works on the shard without the suspect. If it dies now, nobody is blamed.
//   trial     The suspect goes alone. If the relay dies within a quarter of the control's length, that counts against
//             the suspect: the relay had lived four times as long without it.
//   late      The suspect is still under way after that. If the relay dies now, it counts as a crash and no more.
//
// The control doubles with every crash in a row (1 s, 2 s, 4 s, …), and a trial must begin before it has lasted twice
// its length. So no two deaths that count against an event come from relays that had worked for the same time: what
// kills relays at a fixed age is blamed on no event. An event that kills slowly is found once the control is long
// enough.
//
// An answer of any kind, also one that is not a delivery, ends the row: the next crash is the first again.
// test/model/crash.pml has this as a model. Pure functions; `crashes` is Undelivered::crashes, at least 1.
namespace trial {

using namespace std::chrono_literals;

// An event is held after so many deaths in a row that count against it.
inline constexpr std::int32_t blamed_max = 3;

inline constexpr Steady::duration first_control = 1s;
inline constexpr std::int32_t doublings_max = 12;  // 68 minutes

inline Steady::duration control(std::int32_t crashes) {
  return first_control * (std::int64_t{1} << std::clamp(crashes - 1, 0, doublings_max));
}

// From when it is written down until it is late.
inline Steady::duration length(std::int32_t crashes) {
  return control(crashes) / 4;
}

// Would a death count against an event that goes alone now? `worked`: for how long the relay has worked on the shard.
// REQUIRES: worked >= control(crashes)
inline bool counts(std::int32_t crashes, Steady::duration worked) {
  return worked < 2 * control(crashes);
}

}  // namespace trial
}  // namespace waybill
