#pragma once

#include <string>
#include <string_view>

#include "store/sqlite/database.h"

namespace waybill {

// Events that leave the log go to a file of JSON lines, one file for each day and log. It is written before they are
// deleted, and the table `archiving` remembers where it ended before: should we die in between, what is still in the
// log is cut off again, and every event is in one place.
class Archive {
 public:
  // `folder` is made if it is missing; empty: there is no archive.
  Archive(std::string folder, const Database& log, const Database& state);

  // Mends what an earlier clean left behind. To be called by one at a time, before anything else.
  void recover();

  bool wanted() const { return !folder_.empty(); }
  // Notes that these events follow; within the caller's transaction.
  void begin(std::int64_t first_seq);
  // They are on disk when this returns.
  void append(std::string_view lines);
  // They are gone from the log; within the caller's transaction.
  void end();

 private:
  std::string file_of_today() const;

  const std::string folder_;
  const Database& log_;
  const Database& state_;
  std::string file_;
};

}  // namespace waybill
