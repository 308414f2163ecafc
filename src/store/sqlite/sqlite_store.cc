#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "waybill/enqueue.h"
#include "waybill/error.h"

#include "store/sqlite/files.h"

namespace waybill {
namespace {

constexpr std::int64_t oldest_schema = 2;  // that this program can work with

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(SqliteFilesPtr files) : files_(std::move(files)) {}

  std::unique_ptr<Schema> schema() override { return sqlite_schema(files_); }
  std::unique_ptr<Writer> writer() override { return sqlite_writer(files_); }
  std::unique_ptr<Inspector> inspector() override { return sqlite_inspector(files_); }
  std::unique_ptr<Membership> join(const RelayIdentity& relay) override { return sqlite_membership(files_, relay); }
  std::unique_ptr<Session> connect(const RelayIdentity& relay, const std::string& destination) override {
    return sqlite_session(files_, relay, destination);
  }
  std::unique_ptr<Follower> follow() override { return sqlite_follower(files_); }
  std::unique_ptr<Operator> operate() override { return sqlite_operator(files_); }
  std::unique_ptr<Upkeep> upkeep() override { return sqlite_upkeep(files_); }
  std::string describe() const override { return "sqlite:" + files_->log_path; }

 private:
  SqliteFilesPtr files_;
};

class SqliteWriter final : public Writer {
 public:
  explicit SqliteWriter(const SqliteFilesPtr& files)
      : database_(files->log_path, Database::Mode::write), transaction_(database_) {}

  std::vector<EventId> enqueue(std::span<const Event> events) override {
    return waybill::enqueue(database_.raw(), events);
  }
  void commit() override { transaction_.commit(); }

 private:
  Database database_;
  SqliteTransaction transaction_;
};

}  // namespace

Database SqliteFiles::open_log() const {
  Database database(log_path, Database::Mode::write);
  const auto version = database.number("SELECT count(*) FROM sqlite_schema WHERE name = 'waybill_schema'") == 0
                           ? 0
                           : database.number("SELECT max(version) FROM waybill_schema");
  if (version == 0)
    throw Error(Remedy::fix_config, fmt::format("sqlite:{}: has no Waybill tables; run 'waybill migrate'", log_path));
  if (version < oldest_schema)
    throw Error(Remedy::fix_config, fmt::format("sqlite:{}: its schema is of version {}, this program needs {}; run "
                                                "'waybill migrate'",
                                                log_path, version, oldest_schema));
  const auto oldest = database.number("SELECT max(oldest_program) FROM waybill_schema");
  if (oldest > sqlite_schema_version)
    throw Error(Remedy::fix_config,
                fmt::format("sqlite:{}: its schema is of version {} and asks for a program that knows version {}; this "
                            "one knows {}: install a newer waybill",
                            log_path, version, oldest, sqlite_schema_version));
  return database;
}

void SqliteFiles::sync_log() const {
  const std::string wal = log_path + "-wal";
  const int fd = ::open(wal.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return;  // No write-ahead log: then a commit is on disk.
  const bool good = fd >= 0 && ::fdatasync(fd) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!good) throw Error(Remedy::retry, fmt::format("sqlite:{}: cannot sync: {}", wal, std::strerror(error)));
}

SqliteFiles::Tenure SqliteFiles::enter(const std::string& relay) {
  const std::lock_guard guard(mutex_);
  const Tenure present = tenure_.lock();
  if (present && *present == relay) return present;
  if (present)
    throw Error(Remedy::fix_config,
                fmt::format("sqlite:{}: another relay of this process works on it; stop it first", log_path));
  // A file of its own: closing a descriptor of a database file would drop SQLite's locks on it.
  if (!lock_) lock_.emplace(state_path + ".lock");
  auto tenure = std::make_shared<const std::string>(relay);
  tenure_ = tenure;
  return tenure;
}

void SqliteFiles::leave() {
  const std::lock_guard guard(mutex_);
  tenure_.reset();
  lock_.reset();
}

std::int64_t last_seq(const Database& log) {
  return log.number("SELECT seq FROM sqlite_sequence WHERE name = 'waybill_event'");
}

std::unique_ptr<Writer> sqlite_writer(const SqliteFilesPtr& files) {
  files->open_log();  // for its check
  return std::make_unique<SqliteWriter>(files);
}

std::unique_ptr<Store> sqlite_store(SqliteOptions options, Log log) {
  if (options.path.empty()) throw Error(Remedy::fix_config, "sqlite: the path of the database file is missing");
  if (options.state_path.empty()) options.state_path = options.path + "-waybill";
  auto files = std::make_shared<SqliteFiles>(options.path, options.state_path, std::move(log));
  return std::make_unique<SqliteStore>(std::move(files));
}

}  // namespace waybill
