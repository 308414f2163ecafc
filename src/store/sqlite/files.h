#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "waybill/log.h"
#include "waybill/sqlite.h"

#include "store/sqlite/database.h"
#include "store/sqlite/file_lock.h"

namespace waybill {

// What all parts of one SQLite store share. Thread-safe.
struct SqliteFiles {
  SqliteFiles(std::string the_log_path, std::string the_state_path, Log the_log)
      : log_path(std::move(the_log_path)), state_path(std::move(the_state_path)), log(std::move(the_log)) {}

  const std::string log_path;    // the application's file, with the log in it
  const std::string state_path;  // ours
  const Log log;

  // Makes this the relay that works on the file, unless another does: then Error(fix_config). What a relay uses of the
  // store holds on to what this returns. The file stays ours until leave(), or as long as the store lives: a relay that
  // has lost its membership for a while, the disk being full, has events on their way all the same.
  using Tenure = std::shared_ptr<const std::string>;
  Tenure enter(const std::string& relay);
  void leave();

  // The log, to read. Checks that its schema is one we know.
  Database open_log() const;
  // Our own file, made if it is missing, and brought up to date.
  Database open_state() const;
  // Puts on disk what was read from the log. An application may run with synchronous = NORMAL: its commit is then
  // visible before it is on disk, and a power loss would take back what has gone out.
  void sync_log() const;

 private:
  std::mutex mutex_;
  std::optional<FileLock> lock_;  // guarded by mutex_, as is the next
  std::weak_ptr<const std::string> tenure_;
};

using SqliteFilesPtr = std::shared_ptr<SqliteFiles>;

// The highest number the log has given out; 0 if none.
std::int64_t last_seq(const Database& log);

std::unique_ptr<Schema> sqlite_schema(const SqliteFilesPtr& files);
std::unique_ptr<Writer> sqlite_writer(const SqliteFilesPtr& files);
std::unique_ptr<Inspector> sqlite_inspector(const SqliteFilesPtr& files);
std::unique_ptr<Follower> sqlite_follower(const SqliteFilesPtr& files);
std::unique_ptr<Membership> sqlite_membership(const SqliteFilesPtr& files, const RelayIdentity& relay);
std::unique_ptr<Session> sqlite_session(const SqliteFilesPtr& files, const RelayIdentity& relay,
                                        const std::string& destination);
std::unique_ptr<Operator> sqlite_operator(const SqliteFilesPtr& files);
std::unique_ptr<Upkeep> sqlite_upkeep(const SqliteFilesPtr& files);

}  // namespace waybill
