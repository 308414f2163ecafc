#pragma once

#include <memory>
#include <string>
#include <vector>

#include "waybill/log.h"
#include "waybill/sqlite.h"

#include "store/sqlite/database.h"

namespace waybill {

// What all parts of one SQLite store share. Thread-safe.
struct SqliteFiles {
  SqliteFiles(std::string the_log_path, std::string the_state_path, Log the_log)
      : log_path(std::move(the_log_path)), state_path(std::move(the_state_path)), log(std::move(the_log)) {}

  const std::string log_path;    // the application's file, with the log in it
  const std::string state_path;  // ours
  const Log log;

  // The log, to read. Checks that its schema is one we know.
  Database open_log() const;
  // Our own file, made if it is missing, and brought up to date.
  Database open_state() const;
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
