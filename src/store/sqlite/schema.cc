#include <filesystem>

#include <fmt/format.h>

#include "sqlite_sql.h"
#include "store/sqlite/files.h"

namespace waybill {
namespace {

constexpr std::string_view schema_table =
    "CREATE TABLE IF NOT EXISTS waybill_schema (\n"
    "  version        INTEGER PRIMARY KEY,\n"
    "  oldest_program INTEGER NOT NULL,  -- A program must know at least this version.\n"
    "  applied_at     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))\n"
    ");\n";

struct Migration {
  int version;
  int oldest_program;
  std::string_view sql;
};

constexpr std::array migrations{Migration{1, 1, sqlite_sql::m001_event}, Migration{2, 1, sqlite_sql::m002_identity},
                                Migration{3, 1, sqlite_sql::m003_library}};
static_assert(migrations.back().version == sqlite_schema_version);

class SqliteSchema final : public Schema {
 public:
  explicit SqliteSchema(SqliteFilesPtr files) : files_(std::move(files)) {}

  SchemaState state() override {
    // To ask makes no file: a mistyped path must not become a database.
    if (!std::filesystem::exists(files_->log_path)) return {.newest_known = sqlite_schema_version};
    const Database database(files_->log_path, Database::Mode::create);
    return {
        .version = version(database),
        .newest_known = sqlite_schema_version,
        .oldest_program = version(database) == 0
                              ? 0
                              : static_cast<int>(database.number("SELECT max(oldest_program) FROM waybill_schema"))};
  }

  std::string print() const override {
    std::string sql = "PRAGMA journal_mode = WAL;\n\n" + std::string(schema_table);
    for (const Migration& migration : migrations) sql += fmt::format("\n{}\n{}", migration.sql, record(migration));
    return sql;
  }

  std::vector<int> migrate() override {
    const Database database(files_->log_path, Database::Mode::create);
    // Readers and the writer do not wait for each other then. Kept in the file; outside of a transaction
    // only.
    database.run("PRAGMA journal_mode = WAL");
    SqliteTransaction transaction(database);  // A second migrate waits here.
    database.run(std::string(schema_table));
    std::vector<int> applied;
    for (const Migration& migration : migrations) {
      if (migration.version <= version(database)) continue;
      database.run(std::string(migration.sql));
      database.run(record(migration));
      applied.push_back(migration.version);
    }
    transaction.commit();
    return applied;
  }

 private:
  static int version(const Database& database) {
    if (database.number("SELECT count(*) FROM sqlite_schema WHERE name = 'waybill_schema'") == 0) return 0;
    return static_cast<int>(database.number("SELECT max(version) FROM waybill_schema"));
  }

  static std::string record(const Migration& migration) {
    return fmt::format("INSERT INTO waybill_schema (version, oldest_program) VALUES ({}, {});\n", migration.version,
                       migration.oldest_program);
  }

  SqliteFilesPtr files_;
};

}  // namespace

std::unique_ptr<Schema> sqlite_schema(const SqliteFilesPtr& files) {
  return std::make_unique<SqliteSchema>(files);
}

}  // namespace waybill
