#include <array>

#include <fmt/format.h>

#include "postgres_sql.h"
#include "store/postgres/database.h"

namespace waybill {
namespace {

struct Migration {
  int version;
  int oldest_program;
  std::string_view sql;
};

constexpr std::array migrations{
    Migration{1, 1, postgres_sql::m001_event},   Migration{2, 2, postgres_sql::m002_undelivered},
    Migration{3, 2, postgres_sql::m003_operate}, Migration{4, 2, postgres_sql::m004_upkeep},
    Migration{5, 2, postgres_sql::m005_views},   Migration{6, 2, postgres_sql::m006_library}};
static_assert(migrations.back().version == postgres_schema_version);

// The log is a ring of 8 slots; a slot is emptied when all in it is older than the retention.
constexpr int slots_of_retention = 6;

class PgSchema final : public Schema {
 public:
  explicit PgSchema(PgDatabasePtr database) : database_(std::move(database)) {}

  SchemaState state() override {
    PgConnection connection = database_->connect_unchecked("schema", PgRight::read);
    SchemaState state{.newest_known = postgres_schema_version, .readable = may_read(connection)};
    if (!state.readable) return state;
    state.version = version(connection);
    if (state.version == 0) return state;
    const PgQuery query{"oldest", fill("SELECT max(oldest_program) FROM {schema}.migration")};
    state.oldest_program = static_cast<int>(connection.run({&query}).integer(0, 0));
    return state;
  }

  std::string print() const override {
    std::string sql = "BEGIN;\n" + preamble();
    for (const Migration& migration : migrations)
      sql += fmt::format("\n{}\n{}", fill(migration.sql), record(migration));
    return sql + "\n" + fill(postgres_sql::grants) + "COMMIT;\n";
  }

  // Everything in one transaction, under a lock that a second migrate waits for, a minute at most: everybody can take
  // it. No other lock is waited for longer than a few seconds, since whoever comes behind us in a queue for it waits as
  // well.
  std::vector<int> migrate() override {
    PgConnection connection = database_->connect_unchecked("migrate", PgRight::own, pg_no_limit);
    connection.begin(
        "SET LOCAL lock_timeout = '60s'; SELECT pg_advisory_xact_lock(hashtextextended('waybill migrate', 0)); "
        "SET LOCAL lock_timeout = '5s';");
    const int present = version(connection);
    if (present == 0) connection.script(preamble());
    std::vector<int> applied;
    for (const Migration& migration : migrations) {
      if (migration.version <= present) continue;
      connection.script(fill(migration.sql));
      connection.script(record(migration));
      applied.push_back(migration.version);
    }
    if (present <= postgres_schema_version) connection.script(fill(postgres_sql::grants));
    connection.commit();
    return applied;
  }

 private:
  // True also if there is nothing to read. By the catalog, which everybody may read.
  bool may_read(PgConnection& connection) const {
    const PgQuery query{
        "may_read",
        "SELECT count(*) = 0 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = $1 AND c.relname = 'migration' AND NOT (pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND "
        "pg_catalog.has_table_privilege(c.oid, 'SELECT'))"};
    return connection.run({&query, {database_->options.schema}}).boolean(0, 0);
  }

  int version(PgConnection& connection) const {
    const PgQuery there{"there", "SELECT to_regclass($1) IS NOT NULL"};
    if (!connection.run({&there, {database_->options.schema + ".migration"}}).boolean(0, 0)) return 0;
    const PgQuery query{"version", fill("SELECT coalesce(max(version), 0) FROM {schema}.migration")};
    return static_cast<int>(connection.run({&query}).integer(0, 0));
  }

  std::string fill(std::string_view text) const {
    const auto slot =
        std::chrono::duration_cast<std::chrono::seconds>(database_->options.retention) / slots_of_retention;
    std::string sql = filled_in(text, "schema", database_->options.schema);
    sql = filled_in(sql, "shards", std::to_string(database_->options.shards));
    return filled_in(sql, "slot_seconds", std::to_string(std::max<std::int64_t>(1, slot.count())));
  }

  std::string preamble() const {
    return fill(
        "CREATE SCHEMA IF NOT EXISTS {schema};\n"
        "CREATE TABLE {schema}.migration (\n"
        "  version        integer PRIMARY KEY,\n"
        "  oldest_program integer NOT NULL,  -- A program must know at least this version.\n"
        "  applied_at     timestamptz NOT NULL DEFAULT clock_timestamp()\n"
        ");\n");
  }

  std::string record(const Migration& migration) const {
    return fill(fmt::format("INSERT INTO {{schema}}.migration (version, oldest_program) VALUES ({}, {});\n",
                            migration.version, migration.oldest_program));
  }

  PgDatabasePtr database_;
};

}  // namespace

std::unique_ptr<Schema> postgres_schema(const PgDatabasePtr& database) {
  return std::make_unique<PgSchema>(database);
}

}  // namespace waybill
