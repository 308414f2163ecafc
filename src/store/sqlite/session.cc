#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/assert.h"
#include "base/time_text.h"
#include "store/sqlite/event_rows.h"
#include "store/sqlite/files.h"
#include "store/sqlite/identity.h"
#include "store/sqlite/undelivered_rows.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

// What fetched events point into.
struct FetchedMemory {
  EventRows rows{};
  std::deque<std::string> edits{};
};

Match match_of(const RelayIdentity& relay, const std::string& destination) {
  const auto rules = relay.rules.find(destination);
  return rules == relay.rules.end() ? Match{} : rules->second;
}

// One writer means that events commit in the order of their numbers, so the cursor is a number and every read
// is a window by itself. There is one shard.
class SqliteSession final : public Session {
 public:
  SqliteSession(SqliteFilesPtr files, const RelayIdentity& relay, std::string destination)
      : files_(std::move(files)),
        relay_(relay.id),
        tenure_(files_->enter(relay.id)),
        destination_(std::move(destination)),
        match_(match_of(relay, destination_)),
        log_(files_->open_log()),
        state_(files_->open_state()),
        opened_(*files_),
        finder_(log_, state_),
        id_(log_.query("SELECT id FROM waybill_event WHERE seq = ?1")),
        read_(log_.query(
            fmt::format("SELECT {} FROM waybill_event WHERE seq > ?1 ORDER BY seq LIMIT ?2", event_columns()))),
        put_(state_.query(
            "INSERT INTO undelivered (destination, seq, id, key, standing, blocks, attempts, crashes, sending, due, "
            "since, changed_at, error, blamed, in_doubt) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?12, ?13, ?14) "
            "ON CONFLICT (destination, seq) DO UPDATE SET key = excluded.key, standing = excluded.standing, "
            "blocks = excluded.blocks, attempts = excluded.attempts, crashes = excluded.crashes, blamed = "
            "excluded.blamed, "
            "sending = excluded.sending, due = excluded.due, changed_at = excluded.changed_at, error = "
            "excluded.error, in_doubt = excluded.in_doubt, "
            "since = CASE WHEN excluded.standing IN ('expired', 'expired_unknown', 'dead', 'held') "
            "AND excluded.standing <> standing THEN excluded.since ELSE since END")),
        end_(state_.query("DELETE FROM undelivered WHERE destination = ?1 AND seq = ?2")) {
    bind_files(*files_, log_, state_);
  }

  // There is one relay, and a broken connection of its own has left nothing: a transaction ends with its connection.
  std::vector<Opened> open(std::span<const Lease> leases, Start start, bool again) override {
    if (leases.empty()) return {};
    WAYBILL_ASSERT(leases.size() == 1);
    if (!newest_place(state_, destination_))
      log_.query("INSERT OR IGNORE INTO waybill_destination (name) VALUES (?1)").bind(1, destination_).run();
    SqliteTransaction transaction(state_);
    if (!owns(leases.front().term)) return {};
    auto place = newest_place(state_, destination_);
    if (!place) {
      place = Place{.seq = start == Start::now ? last_seq(log_) : 0};
      place->id = id_in_log(log_, place->seq);
      append_place(state_, destination_, *place, 0);
    } else if (!still_there(log_, *place)) {
      throw Error(Remedy::fix_config, no_longer_there(*files_, log_, destination_, *place));
    }
    Opened opened = waiting();
    opened.lease = leases.front();
    if (again)
      state_.query("UPDATE destination SET in_doubt_until = ?2 WHERE name = ?1")
          .bind(1, destination_)
          .bind(2, to_rfc3339(now()))
          .run();
    Query past = state_.query("SELECT crashes, in_doubt_until FROM destination WHERE name = ?1");
    if (past.bind(1, destination_).step()) {
      opened.crashes = static_cast<std::int32_t>(past.integer(0));
      if (!past.null(1)) opened.in_doubt_until = parse_rfc3339(past.text(1));
    }
    past.reset();
    const std::int64_t rules = note_rules(state_, destination_, match_);
    transaction.commit();
    rules_ = rules;
    turn_ = place->turn;
    settled_ = read_upto_ = place->seq;
    return {std::move(opened)};
  }

  void close(std::span<const std::int32_t> /*shards*/) override {}

  Reading exchange(std::span<const Settlement> settled, const Appetite& appetite) override {
    opened_.check();
    Reading reading;
    if (!settled.empty() && !save(settled)) {
      reading.lost.push_back(0);
      return reading;
    }
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

  Fetched fetch(std::span<const Wanted> wanted) override {
    auto memory = std::make_shared<FetchedMemory>();
    Fetched fetched;
    const Time now = this->now();
    for (const Wanted& each : wanted)
      for (const UndeliveredRow& row : rows_of(each, now, fetched)) add(row, fetched, *memory);
    fetched.memory = std::move(memory);
    return fetched;
  }

  std::shared_ptr<const void> load(EventView& /*event*/) override {
    WAYBILL_ASSERT(!"nothing is deferred here");
    return {};
  }

  // The machine's: there is one relay, on the machine that has the files.
  Time now() const override { return system_clock().now(); }

  void release(std::span<const Lease> leases) override {
    for (const Lease& lease : leases)
      state_.query("UPDATE destination SET owner = '', crashes = 0 WHERE name = ?1 AND term = ?2 AND owner = ?3")
          .bind(1, lease.destination)
          .bind(2, lease.term)
          .bind(3, relay_)
          .run();
  }

 private:
  bool owns(std::int64_t term) {
    Query query = state_.query("SELECT 1 FROM destination WHERE name = ?1 AND term = ?2 AND owner = ?3");
    return query.bind(1, destination_).bind(2, term).bind(3, relay_).step();
  }

  Opened waiting() {
    const Time now = system_clock().now();
    Opened opened;
    Query keys = state_.query(
        "SELECT g.key, g.events, u.standing IN ('retrying', 'blocked', 'scheduled'), u.due FROM "
        "(SELECT key, count(*) AS events, min(seq) AS seq FROM undelivered WHERE destination = ?1 AND key <> 0 "
        "AND blocks GROUP BY key) g JOIN undelivered u ON u.destination = ?1 AND u.seq = g.seq");
    keys.bind(1, destination_);
    while (keys.step()) {
      opened.blocked.push_back({.key = static_cast<std::uint64_t>(keys.integer(0)), .events = keys.integer(1)});
      if (keys.integer(2) != 0) opened.blocked.back().wait = wait(keys.integer(3), now);
    }
    if (const auto due = next_due(INT64_MIN)) opened.next_due = wait(*due, now);
    return opened;
  }

  static std::chrono::milliseconds wait(std::int64_t due, Time now) {
    return std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(Time(std::chrono::microseconds(due)) - now));
  }

  // Of those without a key: when the first is due, later than `after`.
  std::optional<std::int64_t> next_due(std::int64_t after) {
    Query query = state_.query(
        "SELECT min(due) FROM undelivered WHERE destination = ?1 AND key = 0 AND "
        "standing IN ('retrying', 'blocked', 'scheduled') AND due > ?2");
    query.bind(1, destination_).bind(2, after).step();
    return query.null(0) ? std::nullopt : std::optional(query.integer(0));
  }

  // --- Settling

  // False: another has the lease by now, or a person has moved the cursor; nothing is written.
  bool save(std::span<const Settlement> settled) {
    WAYBILL_ASSERT(settled.size() == 1);
    const Settlement& settlement = settled.front();
    // That an attempt begins must not be forgotten by a power loss: it might be made twice.
    const bool durable = std::any_of(settlement.undelivered.begin(), settlement.undelivered.end(),
                                     [](const auto& row) { return row.sending != Undelivered::Sending::no; });
    if (durable != durable_) {
      state_.run(durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
      durable_ = durable;
    }
    SqliteTransaction transaction(state_);
    if (!owns(settlement.term)) return false;
    const Time now = system_clock().now();
    for (const Undelivered& row : settlement.undelivered) put(row, now);
    for (const std::int64_t seq : settlement.delivered) end_.bind(1, destination_).bind(2, seq).run();
    for (const std::uint64_t key : settlement.buried_keys) bury(key, now);
    for (const Attempt& attempt : settlement.attempts) record(attempt);
    if (settlement.count > 0) {
      WAYBILL_ASSERT(settlement.seq > settled_);
      append_place(state_, destination_,
                   {.turn = turn_, .seq = settlement.seq, .id = id_in_log(log_, settlement.seq), .settled_at = now},
                   settlement.count, rules_);
    }
    transaction.commit();
    if (settlement.count > 0) settled_ = settlement.seq;
    return true;
  }

  void put(const Undelivered& row, Time now) {
    std::string id;
    if (row.seq > settled_) {  // One that is not new has its id.
      if (id_.bind(1, row.seq).step()) id = id_.text(0);
      id_.reset();
      if (const auto parsed = EventId::parse(id)) id = parsed->to_string();
    }
    put_.bind(1, destination_)
        .bind(2, row.seq)
        .bind(3, id)
        .bind(4, static_cast<std::int64_t>(row.key))
        .bind(5, to_string(row.standing))
        .bind(6, row.blocks ? 1 : 0)
        .bind(7, row.attempts)
        .bind(8, row.crashes)
        .bind(9, static_cast<std::int64_t>(row.sending))
        .bind(10, microseconds(now + row.wait))
        .bind(11, to_rfc3339(now))
        .bind(12, row.error)
        .bind(13, row.blamed)
        .bind(14, row.in_doubt ? 1 : 0)
        .run();
  }

  void bury(std::uint64_t key, Time now) {
    // By itself SQLite does not look through the index of what it changes, but through all of the destination.
    state_
        .query(
            "UPDATE undelivered SET standing = 'dead', blocks = 0, since = ?3, changed_at = ?3, "
            "error = 'buried with an earlier event of its key' WHERE destination = ?1 AND seq IN "
            "(SELECT seq FROM undelivered INDEXED BY undelivered_key WHERE destination = ?1 AND key = ?2 AND blocks)")
        .bind(1, destination_)
        .bind(2, static_cast<std::int64_t>(key))
        .bind(3, to_rfc3339(now))
        .run();
  }

  void record(const Attempt& attempt) {
    state_.query("INSERT INTO attempt (destination, seq, number, at, outcome, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
        .bind(1, destination_)
        .bind(2, attempt.seq)
        .bind(3, attempt.number)
        .bind(4, to_rfc3339(attempt.at))
        .bind(5, to_string(attempt.outcome))
        .bind(6, attempt.error)
        .run();
  }

  // --- Fetching

  std::vector<UndeliveredRow> rows_of(const Wanted& wanted, Time now, Fetched& fetched) {
    const bool by_key = wanted.key != 0;
    Query query = state_.query(fmt::format(
        "SELECT {} FROM undelivered WHERE destination = ?1 AND seq > ?2 AND {} LIMIT ?4", undelivered_columns,
        by_key ? "key = ?3 AND blocks ORDER BY seq"
               : "key = 0 AND standing IN ('retrying', 'blocked', 'scheduled') AND due <= ?3 ORDER BY due, seq"));
    query.bind(1, destination_)
        .bind(2, wanted.after)
        .bind(3, by_key ? static_cast<std::int64_t>(wanted.key) : microseconds(now))
        .bind(4, std::int64_t{wanted.events_max} + 1);
    std::vector<UndeliveredRow> rows;
    bool more = false;
    while (!more && query.step()) {
      more = std::ssize(rows) == wanted.events_max;
      if (!more) rows.push_back(undelivered_row(query, now));
    }
    if (by_key) return rows;
    if (more) {
      fetched.next_due[wanted.shard] = 0ms;
    } else if (const auto due = next_due(microseconds(now))) {
      fetched.next_due[wanted.shard] = wait(*due, now);
    }
    return rows;
  }

  void add(const UndeliveredRow& row, Fetched& fetched, FetchedMemory& memory) {
    if (!finder_.add(row.row.seq, memory.rows)) {
      fetched.items.push_back({.row = row.row,
                               .event = {.seq = row.row.seq, .id = EventId::parse(row.id).value_or(EventId{})},
                               .missing = true});
      return;
    }
    EventView event = memory.rows.events.back();
    event.redrives = row.redrives;
    if (row.payload) event.payload = memory.edits.emplace_back(*row.payload);
    if (row.headers) event.headers = memory.edits.emplace_back(*row.headers);
    fetched.items.push_back({.row = row.row, .event = event});
  }

  // --- Reading

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

  SqliteFilesPtr files_;
  const std::string relay_;
  const SqliteFiles::Tenure tenure_;
  const std::string destination_;
  const Match match_;
  Database log_;
  Database state_;
  const OpenedFiles opened_;
  EventFinder finder_;
  Query id_;
  Query read_;
  Query put_;
  Query end_;
  std::int64_t turn_ = 1;
  std::int64_t rules_ = 0;
  std::int64_t settled_ = 0;
  std::int64_t read_upto_ = 0;
  bool durable_ = false;
  bool more_ = false;
};

}  // namespace

std::unique_ptr<Session> sqlite_session(const SqliteFilesPtr& files, const RelayIdentity& relay,
                                        const std::string& destination) {
  return std::make_unique<SqliteSession>(files, relay, destination);
}

}  // namespace waybill
