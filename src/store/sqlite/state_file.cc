#include <array>

#include <fmt/format.h>

#include "waybill/error.h"

#include "sqlite_sql.h"
#include "store/sqlite/files.h"

namespace waybill {
namespace {

// From one version of our own file to the next, the first being that of an empty file. Whoever opens it brings it up to
// date: it is nobody else's.
constexpr std::array steps{sqlite_sql::state, sqlite_sql::state_002};
constexpr std::int64_t newest = std::ssize(steps);

}  // namespace

Database SqliteFiles::open_state() const {
  Database database(state_path, Database::Mode::create);
  database.run("PRAGMA journal_mode = WAL");
  database.run("PRAGMA synchronous = NORMAL");  // What a power loss takes back is sent again.
  if (database.number("PRAGMA user_version") == newest) return database;
  SqliteTransaction transaction(database);
  const std::int64_t version = database.number("PRAGMA user_version");
  if (version > newest)
    throw Error(Remedy::fix_config,
                fmt::format("sqlite:{}: is of version {}, this program knows {}: install a newer waybill", state_path,
                            version, newest));
  for (auto step = static_cast<std::size_t>(version); step < steps.size(); ++step)
    database.run(std::string(steps[step]));
  database.run(fmt::format("PRAGMA user_version = {}", newest));
  transaction.commit();
  return database;
}

}  // namespace waybill
