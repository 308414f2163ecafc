#include "store/sqlite/cleaner.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/time_text.h"
#include "model/event_json.h"
#include "store/sqlite/cursor.h"
#include "store/sqlite/event_rows.h"

namespace waybill {
namespace {

constexpr std::int64_t batch_rows_max = 500;
constexpr std::size_t batch_bytes_max = std::size_t{8} * 1024 * 1024;
constexpr int batches_max = 10;  // per call and table
constexpr int young_max = 5'000;
constexpr std::int64_t exact_count_max = 10'000;

constexpr std::string_view all_columns =
    "seq, id, tenant, topic, type, aggregate_type, aggregate_id, version, key, payload, payload_bytes, content_type, "
    "metadata, headers, routing_key, schema_id, schema_version, occurred_at, not_before, expires_at, attempts_max, "
    "dedup_key, created_at";
constexpr int column_count = 23;

std::string ago(std::chrono::seconds age) {
  return to_rfc3339(system_clock().now() - age);
}

constexpr std::string_view dead_rows =
    "SELECT destination, seq FROM undelivered WHERE standing IN ('dead', 'dismissed', 'expired', 'expired_unknown') "
    "AND NOT blocks AND "
    "changed_at < ?1";

Count count(Query query) {
  query.step();
  return {.value = std::min(query.integer(0), exact_count_max), .exact = query.integer(0) <= exact_count_max};
}

// False: the application writes; it goes first.
bool begin(std::optional<SqliteTransaction>& transaction, const Database& database) {
  try {
    transaction.emplace(database);
    return true;
  } catch (const Error& error) {
    if (error.remedy() != Remedy::retry) throw;
    return false;
  }
}

}  // namespace

Cleaner::Cleaner(const Database& log, const Database& state, const CleanOptions& options)
    : log_(log),
      state_(state),
      options_(options),
      events_limit_(ago(options.events_older_than)),
      dead_limit_(ago(options.dead_older_than)),
      dedup_limit_(ago(options.dedup_older_than)),
      inbox_limit_(ago(options.inbox_older_than)),
      expiry_limit_(ago(std::chrono::seconds(0))),
      archive_(options.dry ? "" : options.archive_to, log, state) {}

std::int64_t Cleaner::floor() const {
  const auto destinations = placed_destinations(state_);
  std::int64_t floor = destinations.empty() ? 0 : INT64_MAX;
  for (const std::string& name : destinations) floor = std::min(floor, newest_place(state_, name)->seq);
  return floor;
}

std::vector<std::string> Cleaner::held_back() const {
  std::vector<std::string> who;
  Query next = log_.query("SELECT created_at FROM waybill_event WHERE seq > ?1 ORDER BY seq LIMIT 1");
  const auto holds = [&](std::int64_t settled) {
    next.bind(1, settled);
    const bool old = next.step() && next.text(0) < events_limit_;
    next.reset();
    return old;
  };
  const auto destinations = placed_destinations(state_);
  for (const std::string& name : destinations)
    if (holds(newest_place(state_, name)->seq))
      who.push_back(fmt::format("destination '{}' has not settled events that are old enough to go", name));
  if (destinations.empty() && holds(0)) who.emplace_back("no destination has read the log yet");
  return who;
}

Cleaned Cleaner::look() {
  Cleaned found{.held_back = held_back()};
  const std::int64_t limit = exact_count_max + 1;
  Query events =
      log_.query("SELECT count(*) FROM (SELECT 1 FROM waybill_event WHERE seq <= ?1 AND created_at < ?2 LIMIT ?3)");
  events.bind(1, floor()).bind(2, events_limit_).bind(3, limit);
  found.events = count(std::move(events));
  const auto before = [&](std::string_view table, std::string_view time, const std::string& end) {
    Query rows = log_.query(fmt::format("SELECT count(*) FROM (SELECT 1 FROM {} WHERE {} < ?1 LIMIT ?2)", table, time));
    rows.bind(1, end).bind(2, limit);
    return count(std::move(rows));
  };
  found.dedup = before("waybill_dedup", "created_at", dedup_limit_);
  found.inbox = before("waybill_inbox", "handled_at", inbox_limit_);
  found.idempotency = before("waybill_idempotency", "expires_at", expiry_limit_);
  Query dead = state_.query(fmt::format("SELECT count(*) FROM ({} LIMIT ?2)", dead_rows));
  dead.bind(1, dead_limit_).bind(2, limit);
  found.dead = count(std::move(dead));
  return found;
}

Cleaned Cleaner::run() {
  archive_.recover();
  Cleaned done;
  clean_state(done);
  clean_events(done);
  done.dedup.value = clean_table("waybill_dedup", "tenant, key", "created_at", dedup_limit_, done.more);
  done.inbox.value =
      clean_table("waybill_inbox", "tenant, consumer, message_id", "handled_at", inbox_limit_, done.more);
  done.idempotency.value = clean_table("waybill_idempotency", "tenant, key", "expires_at", expiry_limit_, done.more);
  done.held_back = held_back();
  return done;
}

// --- The log

void Cleaner::clean_events(Cleaned& done) {
  for (int i = 0; i < batches_max && goes_on(); ++i) {
    const Batch batch = next_batch();
    if (!batch.seqs.empty() && !take_out(batch)) {
      archive_.recover();
      break;
    }
    done.events.value += std::ssize(batch.seqs);
    if (batch.last) return;
  }
  done.more = true;
}

Cleaner::Batch Cleaner::next_batch() {
  const bool archived = archive_.wanted();
  const int created_at = archived ? column_count - 1 : 1;
  Query query = log_.query(fmt::format("SELECT {} FROM waybill_event WHERE seq > ?1 AND seq <= ?2 ORDER BY seq",
                                       archived ? event_columns() : std::string("seq, created_at")));
  query.bind(1, looked_upto_).bind(2, floor());
  Batch batch;
  EventRows rows;
  int young = 0;
  while (query.step()) {
    looked_upto_ = query.integer(0);
    if (query.text(created_at) >= events_limit_) {
      // They come about in the order of their age; but a clock may have been wrong.
      if (++young == young_max) break;
      continue;
    }
    batch.seqs.push_back(looked_upto_);
    if (archived) {
      rows.add(query);
      append_event_json(batch.lines, rows.events.back());
      batch.lines += '\n';
    }
    if (std::ssize(batch.seqs) == batch_rows_max || rows.bytes() > batch_bytes_max) return batch;
  }
  batch.last = true;
  return batch;
}

// False: the application is at work, or a cursor has been moved back meanwhile; nothing has changed.
bool Cleaner::take_out(const Batch& batch) {
  copy_awaited(batch);
  if (archive_.wanted()) archive_.append(batch.lines);
  SqliteTransaction standstill(state_);
  if (floor() < batch.seqs.back() || !all_kept(batch)) return false;
  {
    std::optional<SqliteTransaction> transaction;
    if (!begin(transaction, log_)) return false;
    Query out = log_.query("DELETE FROM waybill_event WHERE seq = ?1");
    for (const std::int64_t seq : batch.seqs) out.bind(1, seq).run();
    log_.query("UPDATE waybill_identity SET cleaned_upto = max(cleaned_upto, ?1)").bind(1, batch.seqs.back()).run();
    transaction->commit();
  }
  archive_.end();
  standstill.commit();
  return true;
}

void Cleaner::copy_awaited(const Batch& batch) {
  Query awaited = state_.query(
      "SELECT 1 FROM undelivered WHERE seq = ?1 AND NOT EXISTS (SELECT 1 FROM kept WHERE seq = ?1) LIMIT 1");
  Query event = log_.query(fmt::format("SELECT {} FROM waybill_event WHERE seq = ?1", all_columns));
  std::string places = "?1";
  for (int column = 2; column <= column_count; ++column) places += fmt::format(", ?{}", column);
  Query copy = state_.query(fmt::format("INSERT INTO kept ({}) VALUES ({})", all_columns, places));
  SqliteTransaction transaction(state_);
  for (const std::int64_t seq : batch.seqs) {
    const bool waits = awaited.bind(1, seq).step();
    awaited.reset();
    if (!waits || !event.bind(1, seq).step()) continue;
    for (int column = 0; column < column_count; ++column) copy.bind(column + 1, event, column);
    copy.run();
    event.reset();
  }
  if (archive_.wanted()) archive_.begin(batch.seqs.front());
  transaction.commit();
}

bool Cleaner::all_kept(const Batch& batch) const {
  Query loose = state_.query(
      "SELECT 1 FROM undelivered WHERE seq = ?1 AND NOT EXISTS (SELECT 1 FROM kept WHERE seq = ?1) LIMIT 1");
  return std::none_of(batch.seqs.begin(), batch.seqs.end(),
                      [&](std::int64_t seq) { return loose.bind(1, seq).step(); });
}

std::int64_t Cleaner::clean_table(std::string_view table, std::string_view key, std::string_view time,
                                  const std::string& limit, bool& more) {
  Query old = log_.query(fmt::format("SELECT 1 FROM {} WHERE {} < ?1 LIMIT 1", table, time));
  Query out = log_.query(fmt::format(
      "DELETE FROM {0} WHERE ({1}) IN (SELECT {1} FROM {0} WHERE {2} < ?1 ORDER BY {2} LIMIT ?2)", table, key, time));
  std::int64_t deleted = 0;
  for (int i = 0; i < batches_max && goes_on(); ++i) {
    const bool any = old.bind(1, limit).step();
    old.reset();
    if (!any) return deleted;
    std::optional<SqliteTransaction> transaction;
    if (!begin(transaction, log_)) break;
    out.bind(1, limit).bind(2, batch_rows_max).run();
    const int rows = sqlite3_changes(log_.raw());
    transaction->commit();
    deleted += rows;
  }
  more = true;
  return deleted;
}

// --- Our own file

void Cleaner::clean_state(Cleaned& done) {
  done.dead.value = delete_some(dead_rows,
                                "DELETE FROM undelivered WHERE destination = ?2 AND seq = ?3 AND standing IN ('dead', "
                                "'dismissed', 'expired', 'expired_unknown') AND NOT blocks AND changed_at < ?1",
                                dead_limit_, done.more);
  delete_some(
      "SELECT '', seq FROM kept WHERE ?1 <> '' AND NOT EXISTS (SELECT 1 FROM undelivered u WHERE u.seq = kept.seq)",
      "DELETE FROM kept WHERE ?1 <> '' AND ?2 = '' AND seq = ?3 AND NOT EXISTS "
      "(SELECT 1 FROM undelivered WHERE seq = ?3)",
      events_limit_, done.more);
  delete_some(
      "SELECT '', entry FROM attempt WHERE at < ?1 AND NOT EXISTS (SELECT 1 FROM undelivered u "
      "WHERE u.destination = attempt.destination AND u.seq = attempt.seq) ORDER BY entry",
      "DELETE FROM attempt WHERE ?1 <> '' AND ?2 = '' AND entry = ?3", events_limit_, done.more);
  clean_cursors(done.more);
}

// `find` may take long, so it is no part of a transaction; `out` deletes a row that it found, if it still may go. ?1 is
// the limit for both.
std::int64_t Cleaner::delete_some(std::string_view find, std::string_view out, const std::string& limit, bool& more) {
  Query found = state_.query(fmt::format("{} LIMIT {}", find, batch_rows_max));
  Query gone = state_.query(out);
  std::int64_t deleted = 0;
  for (int i = 0; i < batches_max && goes_on(); ++i) {
    std::vector<std::pair<std::string, std::int64_t>> rows;
    found.bind(1, limit);
    while (found.step()) rows.emplace_back(found.text(0), found.integer(1));
    if (rows.empty()) return deleted;
    SqliteTransaction transaction(state_);
    for (const auto& [name, number] : rows) {
      gone.bind(1, limit).bind(2, name).bind(3, number).run();
      deleted += sqlite3_changes(state_.raw());
    }
    transaction.commit();
  }
  more = true;
  return deleted;
}

// The older rows tell when an event was settled, and by which rules; the newest counts. So they stay as long as the
// events they tell of.
void Cleaner::clean_cursors(bool& more) {
  Query oldest = log_.query("SELECT created_at FROM waybill_event ORDER BY seq LIMIT 1");
  const std::string limit = oldest.step() ? std::min(events_limit_, std::string(oldest.text(0))) : events_limit_;
  for (const std::string& name : placed_destinations(state_)) {
    const Place newest = *newest_place(state_, name);
    // Rows lie in the order of their age: the first that is young ends the search.
    Query rows = state_.query(
        "SELECT turn, seq, settled_at FROM cursor WHERE destination = ?1 AND (turn, seq) < (?2, ?3) "
        "ORDER BY turn, seq LIMIT ?4");
    rows.bind(1, name).bind(2, newest.turn).bind(3, newest.seq).bind(4, batches_max * batch_rows_max);
    Place upto{.turn = 0};
    std::int64_t found = 0;
    while (rows.step() && rows.text(2) < limit) {
      upto = {.turn = rows.integer(0), .seq = rows.integer(1)};
      ++found;
    }
    rows.reset();
    if (found == 0) continue;
    more = more || found == batches_max * batch_rows_max;
    state_.query("DELETE FROM cursor WHERE destination = ?1 AND (turn, seq) <= (?2, ?3)")
        .bind(1, name)
        .bind(2, upto.turn)
        .bind(3, upto.seq)
        .run();
    state_
        .query(
            "DELETE FROM rules WHERE destination = ?1 AND id < (SELECT max(id) FROM rules WHERE destination = ?1) "
            "AND id NOT IN (SELECT rules FROM cursor WHERE destination = ?1 AND rules IS NOT NULL)")
        .bind(1, name)
        .run();
  }
}

}  // namespace waybill
