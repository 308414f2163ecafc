#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/json_text.h"
#include "base/time_text.h"
#include "base/waker.h"
#include "model/rules_json.h"
#include "model/trouble_list.h"
#include "store/sqlite/file_watch.h"
#include "store/sqlite/files.h"
#include "store/sqlite/identity.h"

namespace waybill {
namespace {

// A writer that syncs is told of before what it wrote can be seen: at the write, while the sync goes on. So after a
// write we look again, and again, for about a second.
constexpr std::chrono::milliseconds look_first{1};
constexpr std::chrono::milliseconds look_last{512};

class SqliteMembership final : public Membership {
 public:
  SqliteMembership(SqliteFilesPtr files, RelayIdentity relay)
      : files_(std::move(files)),
        relay_(std::move(relay)),
        tenure_(files_->enter(relay_.id)),
        log_(files_->open_log()),
        state_(files_->open_state()),
        news_(log_.query("SELECT seq FROM sqlite_sequence WHERE name = 'waybill_event'")),
        watch_(files_->log_path),
        opened_(*files_) {
    bind_files(*files_, log_, state_);
  }

  Pulse beat(std::span<const std::string> destinations, bool leaving) override {
    opened_.check();
    say_alive(leaving ? std::span<const std::string>{} : destinations);
    Pulse pulse{.next_expiry = relay_.lease};
    const bool copy = notice_copy();
    for (const std::string& destination : destinations) {
      pulse.shards[destination] = 1;
      pulse.relays[destination] = 1;
      const Row row = read(destination);
      pulse.changes[destination] = row.changes;
      if (row.paused || copy) pulse.paused.insert(destination);
      const bool mine = row.owner == relay_.id;
      (mine ? pulse.mine : pulse.free).push_back({.destination = destination, .shard = 0, .term = row.term});
    }
    return pulse;
  }

  void report(std::span<const Trouble> troubles) override { troubles_ = trouble_list(troubles); }

  // There is one relay at a time: an owner that is not this one has died.
  std::vector<Lease> take(std::span<const Lease> free) override {
    std::vector<Lease> won;
    SqliteTransaction transaction(state_);
    for (const Lease& lease : free) {
      const Row row = read(lease.destination);
      if (row.term != lease.term || row.owner == relay_.id) continue;
      const auto place = newest_place(state_, lease.destination);
      const std::int64_t settled = place ? place->seq : 0;
      const bool stuck = !row.owner.empty() && settled == row.seq_when_taken;
      state_
          .query(
              "INSERT INTO destination (name, term, owner, crashes, seq_when_taken) VALUES (?1, ?2, ?3, ?4, ?5) "
              "ON CONFLICT (name) DO UPDATE SET term = excluded.term, owner = excluded.owner, "
              "crashes = excluded.crashes, seq_when_taken = excluded.seq_when_taken, "
              "in_doubt_until = CASE WHEN owner = '' THEN in_doubt_until ELSE ?6 END")
          .bind(1, lease.destination)
          .bind(2, row.term + 1)
          .bind(3, relay_.id)
          .bind(4, stuck ? row.crashes + 1 : 0)
          .bind(5, settled)
          .bind(6, to_rfc3339(system_clock().now()))
          .run();
      won.push_back({lease.destination, lease.shard, row.term + 1});
    }
    transaction.commit();
    return won;
  }

  bool poll() override {
    const std::int64_t last = news_.step() ? news_.integer(0) : 0;
    news_.reset();
    return std::exchange(seen_, last) != last;
  }

  Sleep sleep() override { return watch_.fd() >= 0 ? Sleep::told : Sleep::never; }
  void rise() override {}

  Told wait(Waker& waker, Steady deadline) override {
    const bool looking = look_pause_ <= look_last;
    waker.wait(looking ? std::min(deadline, next_look_) : deadline, watch_.fd());
    const Steady now = system_clock().steady();
    if (watch_.fd() >= 0 && watch_.take()) {
      look_pause_ = look_first;
      next_look_ = now + look_pause_;
      return Told::news;
    }
    if (!looking || now < next_look_) return Told::nothing;
    look_pause_ *= 2;
    next_look_ = now + look_pause_;
    return poll() ? Told::news : Told::nothing;
  }

  void leave() override {
    {
      SqliteTransaction transaction(state_);
      state_.run("DELETE FROM relay");
      // What it still has was not given back by its session: something may be under way.
      state_.query("UPDATE destination SET owner = '', crashes = 0, in_doubt_until = ?2 WHERE owner = ?1")
          .bind(1, relay_.id)
          .bind(2, to_rfc3339(system_clock().now()))
          .run();
      transaction.commit();
    }
    files_->leave();
  }

 private:
  struct Row {
    bool paused = false;
    std::int64_t changes = 0;
    std::int64_t term = 0;
    std::string owner{};
    std::int64_t crashes = 0;
    std::int64_t seq_when_taken = 0;
  };

  Row read(const std::string& destination) {
    Query query =
        state_.query("SELECT paused, changes, term, owner, crashes, seq_when_taken FROM destination WHERE name = ?1");
    query.bind(1, destination);
    if (!query.step()) return {};
    return {.paused = query.integer(0) != 0,
            .changes = query.integer(1),
            .term = query.integer(2),
            .owner = std::string(query.text(3)),
            .crashes = query.integer(4),
            .seq_when_taken = query.integer(5)};
  }

  bool notice_copy() {
    const bool copy = is_copy(*files_, state_);
    if (copy && !std::exchange(copy_, true))
      files_->log.error("the log is a copy: nothing is published until 'waybill anchor' was run",
                        {{"store", files_->log_path}});
    copy_ = copy;
    return copy;
  }

  void say_alive(std::span<const std::string> destinations) {
    std::string names = "[";
    for (const std::string& destination : destinations) {
      if (names.size() > 1) names += ',';
      append_json_string(names, destination);
    }
    names += ']';
    state_
        .query(
            "INSERT INTO relay (one, id, name, last_seen, lease_ms, destinations, troubles, rules) "
            "VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7) "
            "ON CONFLICT (one) DO UPDATE SET id = excluded.id, name = excluded.name, "
            "last_seen = excluded.last_seen, lease_ms = excluded.lease_ms, destinations = excluded.destinations, "
            "troubles = excluded.troubles, rules = excluded.rules")
        .bind(1, relay_.id)
        .bind(2, relay_.name)
        .bind(3, to_rfc3339(system_clock().now()))
        .bind(4, relay_.lease.count())
        .bind(5, names)
        .bind(6, troubles_)
        .bind(7, rules_)
        .run();
  }

  SqliteFilesPtr files_;
  const RelayIdentity relay_;
  const SqliteFiles::Tenure tenure_;
  Database log_;
  Database state_;
  Query news_;
  FileWatch watch_;
  std::string troubles_ = "[]";
  const std::string rules_ = rules_json(relay_.rules);
  const OpenedFiles opened_;
  std::int64_t seen_ = 0;
  bool copy_ = false;
  std::chrono::milliseconds look_pause_ = look_last * 2;  // beyond the last: not looking
  Steady next_look_{};
};

}  // namespace

std::unique_ptr<Membership> sqlite_membership(const SqliteFilesPtr& files, const RelayIdentity& relay) {
  return std::make_unique<SqliteMembership>(files, relay);
}

}  // namespace waybill
