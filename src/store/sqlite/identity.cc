#include "store/sqlite/identity.h"

#include <optional>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "waybill/error.h"

namespace waybill {
namespace {

struct InLog {
  std::string log_id{};
  std::string state_id{};  // none: no relay has worked on it yet
};

InLog in_log(const Database& log) {
  Query query = log.query("SELECT log_id, state_id FROM waybill_identity");
  if (!query.step()) throw Error(Remedy::fix_config, "waybill_identity is empty; restore the database from a backup");
  InLog read{.log_id = std::string(query.text(0))};
  if (!query.null(1)) read.state_id = query.text(1);
  return read;
}

struct InState {
  std::string log_id{};
  std::string state_id{};
  std::int64_t log_inode = 0;
};

std::optional<InState> in_state(const Database& state) {
  Query query = state.query("SELECT log_id, state_id, log_inode FROM identity");
  if (!query.step()) return std::nullopt;
  return InState{
      .log_id = std::string(query.text(0)), .state_id = std::string(query.text(1)), .log_inode = query.integer(2)};
}

// Survives restarts and moves within a file system, where the number of the device does not.
std::int64_t inode(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<std::int64_t>(status.st_ino) : 0;
}

std::string random_id(const Database& database) {
  Query query = database.query("SELECT lower(hex(randomblob(16)))");
  query.step();
  return std::string(query.text(0));
}

void write_identity(const Database& state, const std::string& log_id, const std::string& state_id,
                    std::int64_t log_inode) {
  state.query("INSERT OR REPLACE INTO identity (one, log_id, state_id, log_inode) VALUES (1, ?1, ?2, ?3)")
      .bind(1, log_id)
      .bind(2, state_id)
      .bind(3, log_inode)
      .run();
}

constexpr std::string_view way_out = "; restore the one that belongs to it, or run 'waybill anchor'";

}  // namespace

std::string estrangement(const SqliteFiles& files, const Database& log, const Database& state) {
  const InLog theirs = in_log(log);
  const auto ours = in_state(state);
  if (!ours) {
    if (theirs.state_id.empty()) return {};
    return fmt::format("sqlite:{}: a relay has worked on it before, but what it knew is not in {}", files.log_path,
                       files.state_path);
  }
  if (ours->log_id != theirs.log_id)
    return fmt::format("sqlite:{}: is not the log that {} belongs to", files.log_path, files.state_path);
  if (!theirs.state_id.empty() && ours->state_id != theirs.state_id)
    return fmt::format("sqlite:{}: belongs to this log, but another file has taken its place since", files.state_path);
  return {};
}

void bind_files(const SqliteFiles& files, const Database& log, const Database& state) {
  const std::string problem = estrangement(files, log, state);
  if (!problem.empty()) throw Error(Remedy::fix_config, problem + std::string(way_out));
  const InLog theirs = in_log(log);
  if (!in_state(state)) {
    // On disk before the log knows of it.
    state.run("PRAGMA synchronous = FULL");
    {
      SqliteTransaction transaction(state);
      if (!in_state(state)) write_identity(state, theirs.log_id, random_id(state), inode(files.log_path));
      transaction.commit();
    }
    state.run("PRAGMA synchronous = NORMAL");
  }
  if (!theirs.state_id.empty()) return;
  log.query("UPDATE waybill_identity SET state_id = ?1 WHERE state_id IS NULL")
      .bind(1, in_state(state)->state_id)
      .run();
}

bool is_same_log(const Database& log, const Database& state) {
  const auto ours = in_state(state);
  return ours && ours->log_id == in_log(log).log_id;
}

bool is_copy(const SqliteFiles& files, const Database& state) {
  const auto ours = in_state(state);
  return ours && ours->log_inode != inode(files.log_path);
}

OpenedFiles::OpenedFiles(const SqliteFiles& files)
    : files_(files), log_inode_(inode(files.log_path)), state_inode_(inode(files.state_path)) {}

void OpenedFiles::check() const {
  for (const auto& [path, was] : {std::pair(&files_.log_path, log_inode_), std::pair(&files_.state_path, state_inode_)})
    if (inode(*path) != was)
      throw Error(Remedy::retry, fmt::format("sqlite:{}: was replaced or removed while it was open", *path));
}

bool still_there(const Database& log, const Place& place) {
  if (place.seq == 0) return true;
  if (const auto id = id_in_log(log, place.seq)) return !place.id || *place.id == *id;
  return place.seq <= last_seq(log);  // It was cleaned, or deleted by hand.
}

std::string no_longer_there(const SqliteFiles& files, const Database& log, const std::string& destination,
                            const Place& place) {
  return fmt::format(
      "sqlite:{}: the log ends at {}, but destination '{}' has settled up to {}, which is not the event there now: the "
      "file was replaced by an older one{}",
      files.log_path, last_seq(log), destination, place.seq, way_out);
}

NewIdentity renew_identity(const SqliteFiles& files, const Database& state) {
  NewIdentity made{.log_id = random_id(state), .state_id = random_id(state)};
  write_identity(state, made.log_id, made.state_id, inode(files.log_path));
  return made;
}

void renew_identity(const NewIdentity& identity, const Database& log) {
  log.query("UPDATE waybill_identity SET log_id = ?1, state_id = ?2")
      .bind(1, identity.log_id)
      .bind(2, identity.state_id)
      .run();
}

}  // namespace waybill
