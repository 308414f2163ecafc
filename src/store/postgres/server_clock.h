#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "waybill/time.h"

namespace waybill {

class PgConnection;
class PgRows;
struct PgStatement;

// The database server's clock, as far as it is known here: it was read in a round trip of ours, and we count on by a
// clock of our own that goes on while the machine is suspended (Clock::since_boot).
//
// A round trip says between which two moments of ours the server's clock was read, so it gives a range for the
// difference between the two clocks. What is known already moves only as far as it must to lie in that range. So a slow
// round trip makes nothing worse, a fast one makes it better, and a server's clock that is set is followed at once.
// Not thread-safe.
class ServerClock {
 public:
  // Where the results of a transaction have the server's time: in the first row of this one, if there is a row.
  struct Cell {
    std::size_t statement = 0;
    int column = 0;
  };
  // A transaction that also reads the server's clock.
  std::vector<PgRows> transact(PgConnection& connection, std::span<const PgStatement> statements, Cell clock);

  // The server's clock showed `time` at some moment from `sent` to `received`.
  void was(Time time, Steady sent, Steady received);

  bool known() const { return known_; }
  // REQUIRES: known()
  Time at(Steady moment) const;
  // The machine's own clock as long as nothing is known.
  Time now() const;

 private:
  using Difference = std::chrono::nanoseconds;

  Difference ahead_{};
  bool known_ = false;
};

}  // namespace waybill
