#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "waybill/log.h"
#include "waybill/postgres.h"

#include "database/sql_text.h"
#include "store/postgres/connection.h"
#include "store/postgres/rights.h"

namespace waybill {

// Our statements, for one schema.
struct PgQueries {
  explicit PgQueries(const std::string& schema);
  PgQuery probe, probe_late, walk, bounds, settle, fence, open, release, renew, rules, start;  // a session's
  PgQuery beat, news, enroll, take, sleep, rise, awake, leave;                                 // a membership's
  PgQuery flush, follow;                                                                       // a follower's
  PgQuery status, destinations, relays, projections, list, find, place, story;                 // an inspector's
  PgQuery payload;
  PgQuery undelivered, delivered, bury, attempts, blocked, fetch, next_due;  // a session's, for undelivered events
  PgQuery undelivered_list, undelivered_count, blocked_keys, standings, attempts_at, find_kept;  // an inspector's
};

// What all parts of one PostgreSQL store share. Thread-safe.
struct PgDatabase {
  PgDatabase(PostgresOptions the_options, Log the_log);

  const PostgresOptions options;
  const Log log;
  const PgQueries queries;

  // Connects, for work that takes the right; a refusal for want of it says how to get it. Nothing else is checked.
  PgConnection connect_unchecked(const std::string& purpose, PgRight right,
                                 std::chrono::milliseconds statement_max = pg_statement_max) const;
  // Connects and checks that the schema is one we know, and that this is the database it was made in: on
  // every connection, since after a restore or on a clone our snapshots mean nothing; and that no other server has
  // taken its place meanwhile, unless that is expected. (An application may write wherever it was promoted to.)
  // The connection stays on that server.
  PgConnection connect(const std::string& purpose, PgRight right,
                       std::chrono::milliseconds statement_max = pg_statement_max) const;

 private:
  void check_timeline(PgConnection& connection, int noted, int found) const;

  mutable std::atomic<int> newest_timeline_{0};  // that any connection has found
};

using PgDatabasePtr = std::shared_ptr<const PgDatabase>;

// The columns that events_of() reads, for a SELECT from `event e`; and as many nulls of their types.
std::string pg_event_columns();
std::string pg_null_columns();
inline constexpr int event_columns_count = 25;

// The events of `rows`; what they point to lives as long as rows.memory().
// `first` is the first row to read; without a count all that follow are read, too.
std::vector<EventView> events_of(const PgRows& rows, int first);
EventView event_at(const PgRows& rows, int row);
std::vector<EventView> events_of(const PgRows& rows, int first, int count);
std::size_t bytes_of(const EventView& event);

std::unique_ptr<Schema> postgres_schema(const PgDatabasePtr& database);
std::unique_ptr<Inspector> postgres_inspector(const PgDatabasePtr& database);
std::unique_ptr<Operator> postgres_operator(const PgDatabasePtr& database);
std::unique_ptr<Upkeep> postgres_upkeep(const PgDatabasePtr& database);
std::unique_ptr<Follower> postgres_follower(const PgDatabasePtr& database);
std::unique_ptr<Membership> postgres_membership(const PgDatabasePtr& database, const RelayIdentity& relay);
std::unique_ptr<Session> postgres_session(const PgDatabasePtr& database, const RelayIdentity& relay,
                                          const std::string& destination);

}  // namespace waybill
