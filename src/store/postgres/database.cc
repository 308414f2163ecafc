#include "store/postgres/database.h"

#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "postgres_sql.h"

namespace waybill {
namespace {

std::string statement(std::string_view text, const std::string& schema) {
  std::string sql = filled_in(text, "columns", pg_event_columns());
  sql = filled_in(sql, "null_columns", pg_null_columns());
  return filled_in(sql, "schema", schema);
}

}  // namespace

std::string filled_in(std::string_view text, std::string_view name, std::string_view value) {
  const std::string mark = fmt::format("{{{}}}", name);
  std::string out;
  while (true) {
    const auto at = text.find(mark);
    out += text.substr(0, at);
    if (at == std::string_view::npos) return out;
    out += value;
    text.remove_prefix(at + mark.size());
  }
}

PgQueries::PgQueries(const std::string& schema)
    : probe{"probe", statement(postgres_sql::probe, schema)},
      walk{"walk", statement(postgres_sql::walk, schema)},
      bounds{"bounds", statement(postgres_sql::bounds, schema)},
      settle{"settle", statement(postgres_sql::settle, schema)},
      fence{"fence", statement(postgres_sql::fence, schema)},
      open{"open", statement(postgres_sql::open, schema)},
      release{"release", statement(postgres_sql::release, schema)},
      renew{"renew", statement(postgres_sql::renew, schema)},
      start{"start", "SELECT pg_current_snapshot()::text"},
      beat{"beat", statement(postgres_sql::beat, schema)},
      news{"news", statement(postgres_sql::news, schema)},
      enroll{"enroll", statement(postgres_sql::enroll, schema)},
      take{"take", statement(postgres_sql::take, schema)},
      sleep{"sleep", statement("SELECT pg_try_advisory_lock(hashtextextended('{schema} wake', 0))", schema)},
      rise{"rise", statement("SELECT pg_advisory_unlock(hashtextextended('{schema} wake', 0))", schema)},
      awake{"awake",
            statement("SELECT pg_try_advisory_xact_lock_shared(hashtextextended('{schema} wake', 0))", schema)},
      leave{"leave", statement(postgres_sql::leave, schema)},
      flush{"flush", statement("SELECT 1 FROM {schema}.identity FOR KEY SHARE", schema)},
      status{"status", statement(postgres_sql::status, schema)},
      destinations{"destinations", statement(postgres_sql::destinations, schema)},
      relays{"relays", statement(postgres_sql::relays, schema)},
      list{"list", statement(postgres_sql::list, schema)},
      find{"find", statement(postgres_sql::find, schema)},
      place{"place", statement(postgres_sql::place, schema)},
      story{"story", statement(postgres_sql::story, schema)},
      payload{"payload",
              statement("SELECT payload, payload_bytes FROM {schema}.event WHERE shard = $1 AND seq = $2", schema)} {}

PgDatabase::PgDatabase(PostgresOptions the_options, Log the_log)
    : options(std::move(the_options)), log(std::move(the_log)), queries(options.schema) {}

PgConnection PgDatabase::connect(const std::string& purpose) const {
  PgConnection connection(options.url, purpose);
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
  return connection;
}

}  // namespace waybill
