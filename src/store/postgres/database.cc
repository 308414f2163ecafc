#include "store/postgres/database.h"

#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "postgres_sql.h"

namespace waybill {
namespace {

// A sequence of which nothing was drawn shows the first number as its last.
constexpr std::string_view last_seq =
    "(SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END FROM {schema}.event_seq_seq s)";

std::string statement(std::string_view text, const std::string& schema) {
  std::string sql = filled_in(text, "columns", pg_event_columns());
  sql = filled_in(sql, "last_seq", last_seq);
  sql = filled_in(sql, "null_columns", pg_null_columns());
  return filled_in(sql, "schema", schema);
}

std::string undelivered_count_sql() {
  return fmt::format("SELECT count(*) FROM ({}) AS found", postgres_sql::undelivered_list);
}

// With or without a search for transactions that end late.
std::string probe_statement(bool late, const std::string& schema) {
  std::string sql = filled_in(postgres_sql::probe, "late", late ? postgres_sql::probe_late : "");
  sql = filled_in(sql, "late_parameter", late ? ", $5::text[]" : "");
  return statement(filled_in(sql, "late_column", late ? ", late" : ""), schema);
}

}  // namespace

PgQueries::PgQueries(const std::string& schema)
    : probe{"probe", probe_statement(false, schema)},
      probe_late{"probe_late", probe_statement(true, schema)},
      walk{"walk", statement(postgres_sql::walk, schema)},
      bounds{"bounds", statement(postgres_sql::bounds, schema)},
      settle{"settle", statement(postgres_sql::settle, schema)},
      fence{"fence", statement(postgres_sql::fence, schema)},
      open{"open", statement(postgres_sql::open, schema)},
      release{"release", statement(postgres_sql::release, schema)},
      renew{"renew", statement(postgres_sql::renew, schema)},
      rules{"rules", statement(postgres_sql::rules, schema)},
      start{"start", statement("SELECT pg_current_snapshot()::text, {last_seq}, clock_timestamp()", schema)},
      beat{"beat", statement(postgres_sql::beat, schema)},
      news{"news", statement(postgres_sql::news, schema)},
      enroll{"enroll", statement(postgres_sql::enroll, schema)},
      take{"take", statement(postgres_sql::take, schema)},
      sleep{"sleep", statement("SELECT pg_try_advisory_lock(hashtextextended('{schema} wake', 0))", schema)},
      rise{"rise", statement("SELECT pg_advisory_unlock(hashtextextended('{schema} wake', 0))", schema)},
      awake{"awake",
            statement("SELECT pg_try_advisory_xact_lock_shared(hashtextextended('{schema} wake', 0))", schema)},
      leave{"leave", statement(postgres_sql::leave, schema)},
      flush{"flush", statement("SELECT {schema}.flush()", schema)},
      follow{"follow", statement(postgres_sql::follow, schema)},
      status{"status", statement(postgres_sql::status, schema)},
      destinations{"destinations", statement(postgres_sql::destinations, schema)},
      relays{"relays", statement(postgres_sql::relays, schema)},
      projections{"projections", statement(postgres_sql::projections, schema)},
      list{"list", statement(postgres_sql::list, schema)},
      find{"find", statement(postgres_sql::find, schema)},
      place{"place", statement(postgres_sql::place, schema)},
      story{"story", statement(postgres_sql::story, schema)},
      payload{"payload", statement(postgres_sql::payload, schema)},
      undelivered{"undelivered", statement(postgres_sql::undelivered, schema)},
      delivered{"delivered", statement(postgres_sql::delivered, schema)},
      bury{"bury", statement(postgres_sql::bury, schema)},
      attempts{"attempts", statement(postgres_sql::attempts, schema)},
      blocked{"blocked", statement(postgres_sql::blocked, schema)},
      fetch{"fetch", statement(postgres_sql::fetch, schema)},
      next_due{"next_due", statement(postgres_sql::next_due, schema)},
      undelivered_list{"undelivered_list", statement(postgres_sql::undelivered_list, schema)},
      undelivered_count{"undelivered_count", statement(undelivered_count_sql(), schema)},
      blocked_keys{"blocked_keys", statement(postgres_sql::blocked_keys, schema)},
      standings{"standings", statement(postgres_sql::standings, schema)},
      attempts_at{"attempts_at", statement(postgres_sql::attempts_at, schema)},
      find_kept{
          "find_kept",
          statement("SELECT {columns} FROM {schema}.kept e WHERE e.id = $1::uuid ORDER BY e.id LIMIT 1", schema)} {}

PgDatabase::PgDatabase(PostgresOptions the_options, Log the_log)
    : options(std::move(the_options)), log(std::move(the_log)), queries(options.schema) {}

PgConnection PgDatabase::connect_unchecked(const std::string& purpose, PgRight right,
                                           std::chrono::milliseconds statement_max) const {
  PgConnection connection(options.url, purpose, statement_max);
  connection.on_denied(
      [url = options.url, schema = options.schema, right] { return way_to_right(url, schema, right); });
  return connection;
}

PgConnection PgDatabase::connect(const std::string& purpose, PgRight right,
                                 std::chrono::milliseconds statement_max) const {
  PgConnection connection = connect_unchecked(purpose, right, statement_max);
  const PgQuery check{"check", filled_in(postgres_sql::check, "schema", options.schema)};
  const PgRows rows = connection.run({&check});
  const auto oldest_program = rows.integer(0, 1);
  if (oldest_program > postgres_schema_version)
    throw Error(
        Remedy::fix_config,
        fmt::format("postgresql: schema '{}' is of version {} and asks for a program that knows version {}; this "
                    "one knows {}: install a newer waybill",
                    options.schema, rows.integer(0, 0), oldest_program, postgres_schema_version));
  if (!rows.boolean(0, 2))
    throw Error(
        Remedy::fix_config,
        fmt::format("postgresql: the tables in schema '{}' were made in another cluster or database (a restored "
                    "dump, a clone, an upgrade): transaction numbers mean something else here. Nothing is sent; "
                    "'waybill anchor --dry-run' shows how to go on",
                    options.schema));
  // Before the timeline is noted: that must happen on the server that was checked.
  const int timeline = static_cast<int>(rows.integer(0, 4));
  connection.stay_on(
      {.expect = {"expect_server", filled_in("SELECT {schema}.expect_server($1)", "schema", options.schema)},
       .token = std::string(rows.text(0, 5)),
       .timeline = timeline,
       .newest_timeline = &newest_timeline_});
  if (right != PgRight::enqueue) check_timeline(connection, static_cast<int>(rows.integer(0, 3)), timeline);
  return connection;
}

// A server whose timeline is behind one that we have seen is a former primary that has come back: what it says is of
// the past, whatever the setting.
void PgDatabase::check_timeline(PgConnection& connection, int noted, int found) const {
  const int newest = newest_timeline_.load();
  if (found < newest)
    throw Error(Remedy::retry,
                fmt::format("postgresql: this server is on timeline {}, another one was on {} before: a former primary "
                            "that has come back? Nothing is read from it; name the present primary",
                            found, newest));
  if (found != noted && options.failover == Failover::stop)
    throw Error(
        Remedy::fix_config,
        fmt::format("postgresql: the server is on timeline {}, it was on {}: a standby was promoted, or a backup "
                    "restored, and the last events and settlements may be missing; or it is a clone. Nothing is sent; "
                    "'waybill anchor --dry-run' shows how to go on. Where standbys are synchronous, set failover = "
                    "\"continue\"",
                    found, noted));
  if (found != noted) {
    const PgQuery note{"note_timeline", filled_in("SELECT {schema}.note_timeline()", "schema", options.schema)};
    connection.run({&note});
    log.warning("another timeline", {{"was", std::to_string(noted)}, {"is", std::to_string(found)}});
  }
  for (int known = newest_timeline_.load(); known < found;)
    if (newest_timeline_.compare_exchange_weak(known, found)) break;
}

}  // namespace waybill
