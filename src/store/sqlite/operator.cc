#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/json_members.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "model/filter_details.h"
#include "store/sqlite/cursor.h"
#include "store/sqlite/files.h"
#include "store/sqlite/operations.h"
#include "store/sqlite/undelivered_rows.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t exact_count_max = 10'000;

// What a person may change.
const std::string resting = "standing IN ('dead', 'held', 'expired', 'expired_unknown')";

std::string edit_details(const EventId& id, const Edit& edit) {
  return fmt::format(R"({{"event":"{}","payload":{},"headers":{}}})", id.to_string(), edit.payload.has_value(),
                     edit.headers.has_value());
}

// Works beside a relay of another process: every change is one short transaction of our own file. What it changes is
// looked for before, since that may take long.
class SqliteOperator final : public Operator {
 public:
  explicit SqliteOperator(SqliteFilesPtr files)
      : files_(std::move(files)), log_(files_->open_log()), state_(files_->open_state()), finder_(log_, state_) {
    state_.run("PRAGMA synchronous = FULL");  // What a person was told is done stays done.
  }

  std::int64_t count(const UndeliveredFilter& filter) override {
    std::int64_t found = 0;
    each_undelivered(state_, finder_, filter, "TRUE", false, [&](const UndeliveredRow& /*row*/) {
      ++found;
      return true;
    });
    return found;
  }

  std::int64_t redrive(const Operation& operation, const UndeliveredFilter& filter, int most) override {
    const OperationView what{.kind = "redrive", .details = filter_details(filter)};
    return change(operation, what, filter, most, [&](std::int64_t seq, Moment moment) {
      Query query = state_.query(
          "UPDATE undelivered SET standing = 'retrying', blocks = key <> 0, attempts = 0, crashes = 0, blamed = 0, "
          "sending = 0, due = ?4, redrives = redrives + 1, changed_at = ?5, "
          "ignore_expiry = max(ignore_expiry, standing IN ('expired', 'expired_unknown')) "
          "WHERE destination = ?1 AND seq = ?2 AND " +
          resting + " AND since <= ?3");
      query.bind(4, microseconds(moment.now)).bind(5, to_rfc3339(moment.now));
      return touch(query, moment, filter.destination, seq);
    });
  }

  std::int64_t dismiss(const Operation& operation, const UndeliveredFilter& filter, int most) override {
    const OperationView what{.kind = "dismiss", .details = filter_details(filter)};
    return change(operation, what, filter, most, [&](std::int64_t seq, Moment moment) {
      Query query = state_.query(
          "UPDATE undelivered SET standing = 'dismissed', blocks = 0, changed_at = ?4 "
          "WHERE destination = ?1 AND seq = ?2 AND " +
          resting + " AND since <= ?3");
      query.bind(4, to_rfc3339(moment.now));
      return touch(query, moment, filter.destination, seq);
    });
  }

  void edit(const Operation& operation, const std::string& destination, const EventId& id, const Edit& edit) override {
    if (events_of_operation(state_, operation)) return;
    const auto edited = change(operation, {.kind = "edit", .details = edit_details(id, edit)},
                               {.destination = destination, .ids = {id}}, 1, [&](std::int64_t seq, Moment moment) {
                                 check(seq, edit);
                                 return write_edit(moment, destination, seq, edit);
                               });
    if (edited == 0)
      throw Error(Remedy::fix_input,
                  fmt::format("event {} is neither dead, held nor expired at '{}'", id.to_string(), destination));
  }

  void pause(const Operation& operation, const std::string& destination, bool paused) override {
    SqliteTransaction transaction(state_);
    if (events_of_operation(state_, operation)) return;
    state_
        .query(
            "INSERT INTO destination (name, paused, changes) VALUES (?1, ?2, 1) ON CONFLICT (name) DO UPDATE SET "
            "paused = excluded.paused, changes = changes + 1")
        .bind(1, destination)
        .bind(2, std::int64_t{paused})
        .run();
    record_operation(state_, operation, {.kind = paused ? "pause" : "resume", .destination = destination});
    transaction.commit();
  }

  Count rewind(const Operation& operation, const std::string& destination, const RewindTo& to, bool dry) override {
    if (const auto events = events_of_operation(state_, operation)) return {.value = *events};
    std::int64_t first = first_to_send(to);  // This may take long,
    SqliteTransaction transaction(state_);   // and from here on clean deletes nothing.
    if (!id_in_log(log_, first)) first = first_to_send(to);
    const auto now = newest_place(state_, destination);
    if (!now) throw Error(Remedy::fix_input, fmt::format("there is no destination '{}'", destination));
    Place place{.turn = now->turn + 1, .seq = std::min(first - 1, now->seq)};
    const Count again = count_between(place.seq, now->seq);
    if (dry) return again;
    if (place.seq < now->seq) {
      place.id = id_in_log(log_, place.seq);
      append_place(state_, destination, place, 0);
      drop_what_comes_again(destination, place.seq);
    }
    take_lease_away(state_, destination);
    record_operation(state_, operation,
                     {.kind = "rewind",
                      .destination = destination,
                      .details = fmt::format("from {} to {}", now->seq, place.seq),
                      .events = again.value});
    transaction.commit();
    return again;
  }

  Count forget(const Operation& operation, const std::string& destination, bool dry) override {
    SqliteTransaction transaction(state_);
    if (const auto events = events_of_operation(state_, operation)) return {.value = *events};
    const auto place = newest_place(state_, destination);
    if (!place) throw Error(Remedy::fix_input, fmt::format("there is no destination '{}'", destination));
    if (is_served(destination))
      throw Error(Remedy::fix_input, fmt::format("a relay serves '{}'; take it out of the configuration and restart "
                                                 "the relay first",
                                                 destination));
    Count left = count_between(place->seq, INT64_MAX);
    left.value += count({.destination = destination,
                         .standings = {Standing::retrying, Standing::blocked, Standing::scheduled, Standing::held}});
    if (dry) return left;
    for (const char* sql : {"DELETE FROM cursor WHERE destination = ?1", "DELETE FROM rules WHERE destination = ?1",
                            "DELETE FROM undelivered WHERE destination = ?1",
                            "DELETE FROM attempt WHERE destination = ?1", "DELETE FROM destination WHERE name = ?1"})
      state_.query(sql).bind(1, destination).run();
    record_operation(state_, operation, {.kind = "forget", .destination = destination, .events = left.value});
    // The log first: what it says counts only where our own file is lost, and until that has forgotten too, the
    // destination goes on. The other way round it would come back from there.
    log_.query("DELETE FROM waybill_destination WHERE name = ?1").bind(1, destination).run();
    transaction.commit();
    return left;
  }

  std::vector<OperationView> history(int limit) override { return list_operations(state_, limit); }

 private:
  struct Moment {
    Time now{};
    Time begun{};  // of the operation
  };

  // `apply(seq, moment)` changes a row unless it has died since the operation was begun, or stands otherwise by now.
  template <typename Apply>
  std::int64_t change(const Operation& operation, OperationView what, const UndeliveredFilter& filter, int most,
                      const Apply& apply) {
    if (filter.destination.empty()) throw Error(Remedy::fix_input, "the destination is missing");
    what.destination = filter.destination;
    require_same_operation(state_, operation, what);
    while (true) {
      const Time now = system_clock().now();
      const Moment moment{.now = now, .begun = begin_of_operation(state_, operation, now)};
      const std::vector<std::int64_t> found = find(moment.begun, filter, most);
      SqliteTransaction transaction(state_);
      std::int64_t changed = 0;
      for (const std::int64_t seq : found)
        if (apply(seq, moment)) ++changed;
      // All that was found is gone by now: look again.
      if (changed == 0 && !found.empty()) continue;
      if (changed == 0 && what.kind == "edit") return 0;
      what.events = changed;
      what.at = moment.begun;
      record_operation(state_, operation, what);
      if (changed > 0) note_change(state_, filter.destination);
      transaction.commit();
      return changed;
    }
  }

  std::vector<std::int64_t> find(Time begun, const UndeliveredFilter& filter, int most) {
    std::vector<std::int64_t> found;
    if (most <= 0) return found;
    // What has expired only if somebody asks for it.
    const bool expired = !filter.standings.empty() || !filter.ids.empty();
    const std::string condition =
        fmt::format("{} AND since <= '{}'", expired ? resting : "standing IN ('dead', 'held')", to_rfc3339(begun));
    each_undelivered(state_, finder_, filter, condition, false, [&](const UndeliveredRow& row) {
      found.push_back(row.row.seq);
      return std::ssize(found) < most;
    });
    return found;
  }

  bool touch(Query& query, const Moment& moment, const std::string& destination, std::int64_t seq) {
    query.bind(1, destination).bind(2, seq).bind(3, to_rfc3339(moment.begun)).run();
    return sqlite3_changes(state_.raw()) > 0;
  }

  void check(std::int64_t seq, const Edit& edit) {
    EventRows rows;
    if (!finder_.add(seq, rows)) throw Error(Remedy::fix_input, "the event is not in the log any more");
    if (edit.payload && rows.events[0].payload_is_json && !is_json(*edit.payload))
      throw Error(Remedy::fix_input, "payload must be JSON, as it was");
    if (edit.payload && edit.payload->size() > limits::payload_bytes_max)
      throw Error(Remedy::fix_input, fmt::format("payload must be at most {} bytes", limits::payload_bytes_max));
    if (edit.headers && (!is_json_object(*edit.headers) || edit.headers->size() > limits::headers_bytes_max))
      throw Error(Remedy::fix_input,
                  fmt::format("headers must be a JSON object of at most {} bytes", limits::headers_bytes_max));
    if (!edit.headers) return;
    for (const JsonMember& header : json_members(*edit.headers))
      if (!header.value.starts_with('"')) throw Error(Remedy::fix_input, "headers must be strings");
  }

  bool write_edit(const Moment& moment, const std::string& destination, std::int64_t seq, const Edit& edit) {
    Query query = state_.query(
        "UPDATE undelivered SET payload = coalesce(?4, payload), headers = coalesce(?5, headers), changed_at = ?6 "
        "WHERE destination = ?1 AND seq = ?2 AND " +
        resting + " AND since <= ?3");
    if (edit.payload) query.bind(4, *edit.payload);
    if (edit.headers) query.bind(5, *edit.headers);
    query.bind(6, to_rfc3339(moment.now));
    return touch(query, moment, destination, seq);
  }

  // Events that go again as if for the first time are undelivered no longer.
  void drop_what_comes_again(const std::string& destination, std::int64_t after) {
    Query rows = state_.query("SELECT seq FROM undelivered WHERE destination = ?1 AND seq > ?2");
    rows.bind(1, destination).bind(2, after);
    std::vector<std::int64_t> again;
    while (rows.step())
      if (id_in_log(log_, rows.integer(0))) again.push_back(rows.integer(0));
    rows.reset();
    Query drop = state_.query("DELETE FROM undelivered WHERE destination = ?1 AND seq = ?2");
    for (const std::int64_t seq : again) drop.bind(1, destination).bind(2, seq).run();
  }

  std::int64_t first_to_send(const RewindTo& to) {
    if (!to.time && !to.event) {
      Query first = log_.query("SELECT min(seq) FROM waybill_event");
      first.step();
      return first.null(0) ? last_seq(log_) + 1 : first.integer(0);
    }
    Query query = log_.query(to.event ? "SELECT seq FROM waybill_event WHERE lower(id) = ?1"
                                      : "SELECT seq FROM waybill_event WHERE created_at >= ?1 ORDER BY seq LIMIT 1");
    query.bind(1, to.event ? to.event->to_string() : to_rfc3339(*to.time));
    if (query.step()) return query.integer(0);
    if (to.event) throw Error(Remedy::fix_input, fmt::format("event {} is not in the log", to.event->to_string()));
    return last_seq(log_) + 1;  // Nothing is of that time or later.
  }

  Count count_between(std::int64_t after, std::int64_t upto) {
    Query query =
        log_.query("SELECT count(*) FROM (SELECT 1 FROM waybill_event WHERE seq > ?1 AND seq <= ?2 LIMIT ?3)");
    query.bind(1, after).bind(2, upto).bind(3, exact_count_max + 1).step();
    if (query.integer(0) <= exact_count_max) return {.value = query.integer(0)};
    return {.value = std::min(upto, last_seq(log_)) - after, .exact = false};
  }

  bool is_served(const std::string& destination) {
    Query query = state_.query(
        "SELECT last_seen, lease_ms FROM relay WHERE EXISTS (SELECT 1 FROM json_each(destinations) WHERE value = ?1)");
    query.bind(1, destination);
    if (!query.step()) return false;
    const Time last_seen = parse_rfc3339(query.text(0)).value_or(Time{});
    return system_clock().now() - last_seen < std::chrono::milliseconds(query.integer(1));
  }

  SqliteFilesPtr files_;
  Database log_;
  Database state_;
  EventFinder finder_;
};

}  // namespace

std::unique_ptr<Operator> sqlite_operator(const SqliteFilesPtr& files) {
  return std::make_unique<SqliteOperator>(files);
}

}  // namespace waybill
