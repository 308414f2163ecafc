#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "base/time_text.h"
#include "base/waker.h"
#include "store/sqlite/file_watch.h"
#include "store/sqlite/files.h"

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
        watch_(files_->log_path) {}

  Pulse beat(std::span<const std::string> destinations) override {
    say_alive(destinations);
    Pulse pulse{.next_expiry = relay_.lease, .news = poll()};
    const std::lock_guard lock(files_->mutex);
    for (const std::string& destination : destinations) {
      pulse.shards[destination] = 1;
      pulse.relays[destination] = 1;
      const bool mine = files_->leased.contains(destination);
      (mine ? pulse.mine : pulse.free).push_back({.destination = destination, .shard = 0, .term = 1});
    }
    return pulse;
  }

  std::vector<Lease> take(std::span<const Lease> free) override {
    const std::lock_guard lock(files_->mutex);
    for (const Lease& lease : free) files_->leased.insert(lease.destination);
    return {free.begin(), free.end()};
  }

  bool poll() override {
    const std::int64_t last = news_.step() ? news_.integer(0) : 0;
    news_.reset();
    return std::exchange(seen_, last) != last;
  }

  bool sleep() override { return watch_.fd() >= 0; }
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
    state_.run("DELETE FROM relay");
    files_->leave();
  }

 private:
  void say_alive(std::span<const std::string> destinations) {
    std::string names = "[";
    for (const std::string& destination : destinations) {
      if (names.size() > 1) names += ',';
      append_json_string(names, destination);
    }
    names += ']';
    state_
        .query(
            "INSERT INTO relay (one, id, name, last_seen, lease_ms, destinations) VALUES (1, ?1, ?2, ?3, ?4, "
            "?5) "
            "ON CONFLICT (one) DO UPDATE SET id = excluded.id, name = excluded.name, "
            "last_seen = excluded.last_seen, lease_ms = excluded.lease_ms, destinations = "
            "excluded.destinations")
        .bind(1, relay_.id)
        .bind(2, relay_.name)
        .bind(3, to_rfc3339(system_clock().now()))
        .bind(4, relay_.lease.count())
        .bind(5, names)
        .run();
  }

  SqliteFilesPtr files_;
  const RelayIdentity relay_;
  const SqliteFiles::Tenure tenure_;
  Database log_;
  Database state_;
  Query news_;
  FileWatch watch_;
  std::int64_t seen_ = 0;
  std::chrono::milliseconds look_pause_ = look_last * 2;  // beyond the last: not looking
  Steady next_look_{};
};

}  // namespace

std::unique_ptr<Membership> sqlite_membership(const SqliteFilesPtr& files, const RelayIdentity& relay) {
  return std::make_unique<SqliteMembership>(files, relay);
}

}  // namespace waybill
