#include <algorithm>
#include <set>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "waybill/error.h"

#include "store/sqlite/cleaner.h"
#include "store/sqlite/cursor.h"
#include "store/sqlite/files.h"
#include "store/sqlite/identity.h"
#include "store/sqlite/operations.h"

namespace waybill {
namespace {

constexpr std::int64_t exact_count_max = 10'000;
constexpr int give_way_after_ms = 100;

// Only one cleans.
class CleanLock {
 public:
  explicit CleanLock(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    mine_ = fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
  }
  ~CleanLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  CleanLock(const CleanLock&) = delete;
  CleanLock& operator=(const CleanLock&) = delete;
  bool mine() const { return mine_; }

 private:
  int fd_;
  bool mine_ = false;
};

class SqliteUpkeep final : public Upkeep {
 public:
  explicit SqliteUpkeep(SqliteFilesPtr files)
      : files_(std::move(files)), log_(files_->open_log()), state_(files_->open_state()) {
    log_.run("PRAGMA synchronous = FULL");  // What has left one place must have come to the other.
    state_.run("PRAGMA synchronous = FULL");
  }

  Cleaned clean(const CleanOptions& options) override {
    if (options.dry) return Cleaner(log_, state_, options).look();
    const CleanLock lock(files_->state_path + ".clean");
    if (!lock.mine()) return {};
    const std::string stranger = estrangement(*files_, log_, state_);
    if (!stranger.empty())
      throw Error(Remedy::fix_config, stranger + "; nothing is cleaned until 'waybill anchor' was run");
    if (is_copy(*files_, state_))
      return {.held_back = {"the log is a copy: nothing is cleaned until 'waybill anchor' was run"}};
    sqlite3_busy_timeout(log_.raw(), give_way_after_ms);
    return Cleaner(log_, state_, options).run();
  }

  Anchored anchor(const Operation& operation, bool dry) override {
    SqliteTransaction transaction(state_);
    Anchored anchored{.found = difference()};
    anchored.needed = !anchored.found.empty();
    if (!anchored.needed) return anchored;
    const bool same = is_same_log(log_, state_);
    std::int64_t used = std::max(highest_seq(), last_seq(log_));
    if (!dry) renumber_kept(used);
    std::int64_t first = INT64_MAX;
    for (const std::string& name : destinations()) {
      const Place place = common_place(name, same);
      first = std::min(first, place.seq);
      if (!dry) anchor(name, place);
    }
    anchored.to_be_sent = count_after(first == INT64_MAX ? 0 : first);
    if (dry) return anchored;
    const NewIdentity identity = renew_identity(*files_, state_);
    record_operation(state_, operation,
                     {.kind = "anchor", .details = anchored.found, .events = anchored.to_be_sent.value});
    transaction.commit();
    SqliteTransaction adoption(log_);
    raise_seq(used);
    renew_identity(identity, log_);
    adoption.commit();
    return anchored;
  }

 private:
  std::string difference() {
    std::string found = estrangement(*files_, log_, state_);
    if (!found.empty()) return found;
    if (is_copy(*files_, state_))
      return fmt::format("sqlite:{}: is another file than it was: a copy, or restored", files_->log_path);
    for (const std::string& name : placed_destinations(state_)) {
      const Place place = *newest_place(state_, name);
      if (!still_there(log_, place)) return no_longer_there(*files_, log_, name, place);
    }
    return {};
  }

  // Also those that only the log remembers.
  std::set<std::string> destinations() {
    const auto placed = placed_destinations(state_);
    std::set<std::string> names(placed.begin(), placed.end());
    Query query = log_.query("SELECT name FROM waybill_destination");
    while (query.step()) names.emplace(query.text(0));
    return names;
  }

  // The last place up to which this log is the one that the destination has settled.
  Place common_place(const std::string& name, bool same) {
    const std::int64_t cleaned_upto = same ? log_.number("SELECT cleaned_upto FROM waybill_identity") : 0;
    Query rows = state_.query("SELECT turn, seq, id FROM cursor WHERE destination = ?1 ORDER BY turn DESC, seq DESC");
    rows.bind(1, name);
    while (rows.step()) {
      Place place{.turn = rows.integer(0), .seq = rows.integer(1)};
      if (!rows.null(2)) place.id = rows.text(2);
      const auto id = id_in_log(log_, place.seq);
      const bool fits = id ? (place.id ? *place.id == *id : same) : place.seq <= cleaned_upto;
      if (fits) return place;
    }
    return {};
  }

  void anchor(const std::string& name, const Place& place) {
    const auto newest = newest_place(state_, name);
    if (!newest || newest->seq != place.seq)
      append_place(state_, name, {.turn = newest ? newest->turn + 1 : 1, .seq = place.seq, .id = place.id}, 0);
    // What comes again with the log need not wait, and what is nowhere cannot.
    state_.query("DELETE FROM undelivered WHERE destination = ?1 AND seq > ?2 AND seq NOT IN (SELECT seq FROM kept)")
        .bind(1, name)
        .bind(2, place.seq)
        .run();
    drop_lost(name);
    take_lease_away(state_, name);
    state_.query("UPDATE destination SET paused = 1 WHERE name = ?1").bind(1, name).run();
    log_.query("INSERT OR IGNORE INTO waybill_destination (name) VALUES (?1)").bind(1, name).run();
  }

  void drop_lost(const std::string& name) {
    Query rows =
        state_.query("SELECT seq, id FROM undelivered WHERE destination = ?1 AND seq NOT IN (SELECT seq FROM kept)");
    rows.bind(1, name);
    std::vector<std::int64_t> lost;
    while (rows.step()) {
      const auto id = id_in_log(log_, rows.integer(0));
      const auto now = id ? EventId::parse(*id) : std::nullopt;
      const auto then = EventId::parse(rows.text(1));
      if (!id || (now && then && *now != *then)) lost.push_back(rows.integer(0));
    }
    Query drop = state_.query("DELETE FROM undelivered WHERE destination = ?1 AND seq = ?2");
    for (const std::int64_t seq : lost) drop.bind(1, name).bind(2, seq).run();
  }

  // An older log would give out numbers again that our own file knows other events by.
  std::int64_t highest_seq() const {
    return state_.number(
        "SELECT max(coalesce((SELECT max(seq) FROM kept), 0), coalesce((SELECT max(seq) FROM undelivered), 0), "
        "coalesce((SELECT max(seq) FROM attempt), 0), coalesce((SELECT max(seq) FROM cursor), 0))");
  }
  // Nor may it have done so already.
  void renumber_kept(std::int64_t& used) const {
    Query rows = state_.query("SELECT seq, id FROM kept ORDER BY seq");
    std::vector<std::int64_t> taken;
    while (rows.step())
      if (const auto id = id_in_log(log_, rows.integer(0)); id && *id != rows.text(1)) taken.push_back(rows.integer(0));
    rows.reset();
    for (const std::int64_t seq : taken) {
      ++used;
      for (const char* table : {"kept", "undelivered", "attempt"})
        state_.query(fmt::format("UPDATE {} SET seq = ?2 WHERE seq = ?1", table)).bind(1, seq).bind(2, used).run();
    }
  }
  void raise_seq(std::int64_t seq) const {
    if (seq <= last_seq(log_)) return;
    log_.run("DELETE FROM sqlite_sequence WHERE name = 'waybill_event'");
    log_.query("INSERT INTO sqlite_sequence (name, seq) VALUES ('waybill_event', ?1)").bind(1, seq).run();
  }

  Count count_after(std::int64_t seq) {
    Query query = log_.query("SELECT count(*) FROM (SELECT 1 FROM waybill_event WHERE seq > ?1 LIMIT ?2)");
    query.bind(1, seq).bind(2, exact_count_max + 1).step();
    if (query.integer(0) <= exact_count_max) return {.value = query.integer(0)};
    return {.value = last_seq(log_) - seq, .exact = false};
  }

  SqliteFilesPtr files_;
  Database log_;
  Database state_;
};

}  // namespace

std::unique_ptr<Upkeep> sqlite_upkeep(const SqliteFilesPtr& files) {
  return std::make_unique<SqliteUpkeep>(files);
}

}  // namespace waybill
