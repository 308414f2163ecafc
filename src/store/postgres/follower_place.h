#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/postgres/snapshot.h"

namespace waybill {

// Where a reader of the whole log is: everything visible in `settled` is behind it, and of the window up to
// `walking`, if there is one, what has a seq up to `last`. Written as "2.history.settled" or
// "2.history.settled.walking.last.floor.ceiling", the snapshots in few characters: a place must fit into the header of
// a request. See the table `history`.
struct FollowerPlace {
  std::string history{};
  Snapshot settled{};
  std::optional<Snapshot> walking{};
  std::int64_t last = 0;
  std::int64_t floor = 0;
  std::int64_t ceiling = 0;

  // Of a place that a client sends. Throws Error(fix_input) if it is none.
  static FollowerPlace parse(std::string_view text);
  std::string to_string(std::int64_t last_seq) const;

  const Snapshot& end() const { return walking ? *walking : settled; }
  // What follows when everything visible in `present` was read.
  FollowerPlace after(const Snapshot& present) const { return {.history = history, .settled = present}; }
};

}  // namespace waybill
