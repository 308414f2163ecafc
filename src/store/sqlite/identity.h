#pragma once

#include <string>

#include "store/sqlite/cursor.h"
#include "store/sqlite/database.h"
#include "store/sqlite/files.h"

// Do the log and our own file belong together? Each knows the other by a random number. Files get copied, restored and
// lost, one without the other; what was settled in one log says nothing about another.
//
//  - our file is gone, or is another log's, or the log is:         no relay works on them;
//  - the log was restored from before what a destination settled:  no relay works on them;
//  - both were copied, so that the log is another file now:        relays work, and all destinations are paused.
//
// Out of each of them leads Upkeep::anchor(). A copy of both put back over the originals' own bytes cannot be told from
// the originals; it sends again what was settled since.
namespace waybill {

// The files were made for each other, or are from now on, being new. Throws Error(fix_config) otherwise.
void bind_files(const SqliteFiles& files, const Database& log, const Database& state);

// What speaks against them, in words; nothing if nothing does.
std::string estrangement(const SqliteFiles& files, const Database& log, const Database& state);

bool is_same_log(const Database& log, const Database& state);

// Is the log another file than when they were bound?
bool is_copy(const SqliteFiles& files, const Database& state);

// A file may be replaced or removed while we have it open; what is read and written then is nobody's.
class OpenedFiles {
 public:
  explicit OpenedFiles(const SqliteFiles& files);
  // Throws Error(retry) if one of them is not the file any more that it was: whoever opens them anew sees what is
  // there.
  void check() const;

 private:
  const SqliteFiles& files_;
  std::int64_t log_inode_;
  std::int64_t state_inode_;
};

// Is the log still one in which everything up to this place was there to be settled?
bool still_there(const Database& log, const Place& place);
std::string no_longer_there(const SqliteFiles& files, const Database& log, const std::string& destination,
                            const Place& place);

// Makes them belong together; new numbers keep what was copied apart from its copies. The first is done within the
// caller's transaction of our own file; should only that come to pass, they are strangers.
struct NewIdentity {
  std::string log_id{};
  std::string state_id{};
};
NewIdentity renew_identity(const SqliteFiles& files, const Database& state);
void renew_identity(const NewIdentity& identity, const Database& log);

}  // namespace waybill
