#pragma once

#include "waybill/store.h"

#include "store/sqlite/archive.h"
#include "store/sqlite/database.h"

namespace waybill {

// Removes what is old, in batches. The log is the application's file, so each batch is a short transaction, and none
// waits long for the application: clean comes again.
//
// A batch takes our own file's lock first, then the log's, so that no cursor moves back while its events go. What
// somebody still waits for is copied to `kept`, on disk, before it leaves the log.
class Cleaner {
 public:
  // REQUIRES: nobody else cleans meanwhile.
  Cleaner(const Database& log, const Database& state, const CleanOptions& options);

  // What would be cleaned.
  Cleaned look();
  Cleaned run();

 private:
  struct Batch {
    std::vector<std::int64_t> seqs{};
    std::string lines{};  // for the archive
    bool last = false;
  };

  bool goes_on() const { return !options_.stop.stop_requested(); }
  // Everything up to here is settled everywhere.
  std::int64_t floor() const;
  std::vector<std::string> held_back() const;
  void clean_events(Cleaned& done);
  Batch next_batch();
  bool take_out(const Batch& batch);
  void copy_awaited(const Batch& batch);
  bool all_kept(const Batch& batch) const;
  // Rows of a table of the application's file whose `time` is before `limit`.
  std::int64_t clean_table(std::string_view table, std::string_view key, std::string_view time,
                           const std::string& limit, bool& more);
  void clean_state(Cleaned& done);
  std::int64_t delete_some(std::string_view find, std::string_view out, const std::string& limit, bool& more);
  void clean_cursors(bool& more);

  const Database& log_;
  const Database& state_;
  const CleanOptions& options_;
  const std::string events_limit_;
  const std::string dead_limit_;
  const std::string dedup_limit_;
  const std::string inbox_limit_;
  const std::string expiry_limit_;
  Archive archive_;
  std::int64_t looked_upto_ = 0;
};

}  // namespace waybill
