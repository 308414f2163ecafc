#include "store/postgres/server_clock.h"

#include <algorithm>

#include "store/postgres/connection.h"

namespace waybill {

std::vector<PgRows> ServerClock::transact(PgConnection& connection, std::span<const PgStatement> statements,
                                          Cell clock) {
  const Steady sent = system_clock().since_boot();
  std::vector<PgRows> results = connection.transact(statements);
  if (const PgRows& rows = results[clock.statement]; rows.size() > 0)
    was(rows.time(0, clock.column), sent, system_clock().since_boot());
  return results;
}

void ServerClock::was(Time time, Steady sent, Steady received) {
  const Difference least = time.time_since_epoch() - received.time_since_epoch();
  const Difference most = time.time_since_epoch() - sent.time_since_epoch();
  ahead_ = known_ ? std::clamp(ahead_, least, most) : least;
  known_ = true;
}

Time ServerClock::at(Steady moment) const {
  return Time(std::chrono::floor<std::chrono::microseconds>(moment.time_since_epoch() + ahead_));
}

Time ServerClock::now() const {
  return known_ ? at(system_clock().since_boot()) : system_clock().now();
}

}  // namespace waybill
