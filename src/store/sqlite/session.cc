#include <fmt/format.h>

#include "waybill/error.h"

#include "base/assert.h"
#include "base/time_text.h"
#include "store/sqlite/event_rows.h"
#include "store/sqlite/files.h"

namespace waybill {
namespace {

// One writer means that events commit in the order of their numbers, so the cursor is a number and every read
// is a window by itself. There is one shard.
class SqliteSession final : public Session {
 public:
  SqliteSession(SqliteFilesPtr files, const RelayIdentity& relay, std::string destination)
      : files_(std::move(files)),
        tenure_(files_->enter(relay.id)),
        destination_(std::move(destination)),
        log_(files_->open_log()),
        state_(files_->open_state()),
        read_(log_.query(
            fmt::format("SELECT {} FROM waybill_event WHERE seq > ?1 ORDER BY seq LIMIT ?2", event_columns()))),
        save_(state_.query("INSERT INTO cursor (destination, seq, settled_at, count) VALUES (?1, ?2, ?3, ?4)")) {}

  // There is one relay, and a broken connection of its own has left nothing: a transaction ends with its connection.
  std::vector<Lease> open(std::span<const Lease> leases, Start start, bool /*again*/) override {
    if (leases.empty()) return {};
    Query cursor = state_.query("SELECT max(seq) FROM cursor WHERE destination = ?1");
    cursor.bind(1, destination_);
    cursor.step();
    if (cursor.null(0)) {
      cursor.reset();
      settled_ = start == Start::now ? last_seq(log_) : 0;
      save(settled_, 0);
    } else {
      settled_ = cursor.integer(0);
      cursor.reset();
      check_the_log_is_not_older();
    }
    read_upto_ = settled_;
    return {leases.begin(), leases.end()};
  }

  void close(std::span<const std::int32_t> /*shards*/) override {}

  Reading exchange(std::span<const Settlement> settled, const Appetite& appetite) override {
    for (const Settlement& settlement : settled) {
      if (settlement.count == 0) continue;
      WAYBILL_ASSERT(settlement.seq > settled_);
      save(settlement.seq, settlement.count);
      settled_ = settlement.seq;
    }
    Reading reading;
    if (appetite.shards.empty()) return reading;
    EventRows rows = read(appetite);
    if (rows.events.empty()) return reading;
    files_->sync_log();
    read_upto_ = rows.events.back().seq;
    reading.chunks.push_back({.shard = 0,
                              .window = std::make_shared<Window>(),
                              .events = std::move(rows.events),
                              .ends_window = !more_,
                              .bytes = rows.bytes(),
                              .memory = rows.memory()});
    return reading;
  }

  std::shared_ptr<const void> load(EventView& /*event*/) override {
    WAYBILL_ASSERT(!"nothing is deferred here");
    return {};
  }

  void release(std::span<const Lease> leases) override {
    const std::lock_guard lock(files_->mutex);
    for (const Lease& lease : leases) files_->leased.erase(lease.destination);
  }

 private:
  EventRows read(const Appetite& appetite) {
    EventRows rows;
    more_ = false;
    read_.bind(1, read_upto_).bind(2, std::int64_t{appetite.events_max} + 1);
    while (read_.step()) {
      if (std::ssize(rows.events) == appetite.events_max ||
          (!rows.events.empty() && rows.bytes() > appetite.bytes_max)) {
        more_ = true;
        read_.reset();
        break;
      }
      rows.add(read_);
    }
    return rows;
  }

  void save(std::int64_t seq, std::int64_t count) {
    save_.bind(1, destination_).bind(2, seq).bind(3, to_rfc3339(system_clock().now())).bind(4, count);
    save_.run();
  }

  void check_the_log_is_not_older() {
    const std::int64_t last = last_seq(log_);
    if (last < settled_)
      throw Error(Remedy::fix_config,
                  fmt::format("sqlite:{}: the log ends at {}, but destination '{}' has settled up to {}: the file was "
                              "replaced by an older one; restore {} from the same time, or remove it to send "
                              "everything again",
                              files_->log_path, last, destination_, settled_, files_->state_path));
  }

  SqliteFilesPtr files_;
  const SqliteFiles::Tenure tenure_;
  const std::string destination_;
  Database log_;
  Database state_;
  Query read_;
  Query save_;
  std::int64_t settled_ = 0;
  std::int64_t read_upto_ = 0;
  bool more_ = false;
};

}  // namespace

std::unique_ptr<Session> sqlite_session(const SqliteFilesPtr& files, const RelayIdentity& relay,
                                        const std::string& destination) {
  return std::make_unique<SqliteSession>(files, relay, destination);
}

}  // namespace waybill
