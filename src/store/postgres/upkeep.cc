#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/time_text.h"
#include "postgres_sql.h"
#include "store/postgres/archive_file.h"
#include "store/postgres/database.h"

namespace waybill {
namespace {

constexpr std::int64_t exact_count_max = 10'000;
constexpr std::int64_t rows_at_once = 10'000;  // to be deleted in one transaction
constexpr std::int64_t answers_at_once = 500;  // A body may be large.
constexpr std::int64_t copies_at_once = 2'000;
// Of the archive, read in one go: so many lines at most, and no more once they have so many bytes.
constexpr int lines_at_once = 1'000;
constexpr std::int64_t line_bytes_at_once = std::int64_t{8} * 1024 * 1024;
// The ring has 8 slots, of which one is written and one is being emptied.
constexpr int slots_kept = 6;
constexpr int slots_kept_max = 7;

// Longer than any log can be made for: events are kept for ever.
constexpr std::chrono::hours for_ever{24 * 3'661};

// A slot of the log that holds something (clean_slots.sql).
struct Slot {
  struct Holder {
    std::string destination{};
    std::int64_t events = 0;
    Time oldest{};
  };
  std::int64_t number = 0;
  std::string state{};
  bool laps = false;
  Time oldest{};
  std::int64_t first_seq = 0;
  std::int64_t last_seq = 0;
  std::string in_use_by{};        // For longer than a moment; empty: by nobody. Looked at if it is old,
  std::vector<Holder> holders{};  // and these, if nobody uses it.

  bool is_old() const { return state == "old"; }
  bool can_go() const { return is_old() && in_use_by.empty() && holders.empty(); }
};

std::string seconds_text(std::chrono::seconds seconds) {
  return std::to_string(seconds.count());
}

Count count_of(std::int64_t counted, std::int64_t estimate) {
  if (counted <= exact_count_max) return {.value = counted};
  return {.value = std::max(counted, estimate), .exact = false};
}

// Takes a slot out of the log as a whole, in one transaction in which everything is checked once more
// (migrations/004_upkeep.sql has the checks, so that nobody can leave them out).
class PgUpkeep final : public Upkeep {
 public:
  explicit PgUpkeep(PgDatabasePtr database) : database_(std::move(database)) {}

  Cleaned clean(const CleanOptions& options) override;
  Anchored anchor(const Operation& operation, bool dry) override;

 private:
  PgConnection& connection() {
    if (!connection_)
      connection_ = std::make_unique<PgConnection>(database_->connect("upkeep", PgRight::operate, pg_no_limit));
    return *connection_;
  }
  PgRows ask(const PgQuery& query, PgParameters parameters) {
    const PgStatement statement{&query, std::move(parameters)};
    return std::move(connection().transact(std::span(&statement, 1)).at(0));
  }
  PgQuery query(const std::string& name, std::string_view text, std::int64_t slot = 0) const {
    const std::string sql = filled_in(text, "slot", std::to_string(slot));
    return {fmt::format("{}_{}", name, slot), filled_in(sql, "schema", database_->options.schema)};
  }

  std::vector<Slot> slots(const CleanOptions& options, std::chrono::seconds& slot_length);
  void look_who_uses(std::vector<Slot>& slots);
  void look_who_holds(std::vector<Slot>& slots);
  Count count(const Slot& slot);
  // "emptied", "busy", "needed", "changed" or "stopped".
  std::string empty(const Slot& slot, const CleanOptions& options);
  std::string archive_and_empty(const Slot& slot, const CleanOptions& options);
  // What the snapshot sees of it. False: stopped.
  bool archive(const Slot& slot, const std::string& snapshot, const std::stop_token& stop, ArchiveFile& file);
  void sweep(const CleanOptions& options, Cleaned& cleaned);
  void sweep_library(const CleanOptions& options, Cleaned& cleaned);

  PgDatabasePtr database_;
  std::unique_ptr<PgConnection> connection_;  // Made when it is needed: to anchor, no check must stand in the way.
};

void tell_holders(const std::vector<Slot>& slots, const CleanOptions& options, std::chrono::seconds slot_length,
                  Cleaned& cleaned) {
  std::map<std::string, Slot::Holder> holders;
  for (const Slot& slot : slots) {
    for (const Slot::Holder& holder : slot.holders) {
      Slot::Holder& all = holders[holder.destination];
      all.oldest = all.events == 0 ? holder.oldest : std::min(all.oldest, holder.oldest);
      all.events += holder.events;
    }
    if (!slot.in_use_by.empty())
      cleaned.held_back.push_back(
          fmt::format("slot {} is in use by {}: it is emptied when that has ended", slot.number, slot.in_use_by));
    if (slot.laps && options.events_older_than < for_ever)
      cleaned.held_back.push_back(
          fmt::format("the ring has come round: slot {} still holds events of {}, and new ones; it is emptied when all "
                      "of them are old",
                      slot.number, to_rfc3339(slot.oldest)));
  }
  for (const auto& [name, holder] : holders)
    cleaned.held_back.push_back(fmt::format(
        "destination '{}' has not settled {}{} events that are old enough to go, the oldest of {}; run a relay "
        "that serves it, or forget it",
        name, holder.events, holder.events >= exact_count_max ? " or more" : "", to_rfc3339(holder.oldest)));
  if (options.events_older_than > slots_kept_max * slot_length && options.events_older_than < for_ever)
    cleaned.held_back.push_back(fmt::format(
        "events are to be kept for {} s, but the log was made to be emptied after {} s: nothing can go; set a "
        "retention of at most that",
        options.events_older_than.count(), (slots_kept * slot_length).count()));
}

Cleaned PgUpkeep::clean(const CleanOptions& options) {
  Cleaned cleaned;
  std::chrono::seconds slot_length{};
  std::vector<Slot> found = slots(options, slot_length);
  if (!options.dry) look_who_uses(found);
  look_who_holds(found);
  tell_holders(found, options, slot_length, cleaned);
  bool emptied = false;
  for (const Slot& slot : found) {
    if (!slot.can_go()) continue;
    if (emptied || options.stop.stop_requested()) {  // One at a call.
      cleaned.more = true;
      break;
    }
    const Count events = count(slot);
    if (!options.dry) {
      const std::string result = empty(slot, options);
      if (result == "busy")
        cleaned.held_back.push_back(fmt::format("slot {} is in use: it is emptied when that has ended", slot.number));
      if (result != "emptied") continue;
      emptied = true;
    }
    cleaned.events.value += events.value;
    cleaned.events.exact = cleaned.events.exact && events.exact;
  }
  if (options.stop.stop_requested()) {
    cleaned.more = true;
  } else {
    sweep(options, cleaned);
    sweep_library(options, cleaned);
  }
  return cleaned;
}

std::vector<Slot> PgUpkeep::slots(const CleanOptions& options, std::chrono::seconds& slot_length) {
  const PgRows rows = ask(query("clean_slots", postgres_sql::clean_slots), {seconds_text(options.events_older_than)});
  std::vector<Slot> found;
  for (int row = 0; row < rows.size(); ++row) {
    found.push_back({.number = rows.integer(row, 0),
                     .state = std::string(rows.text(row, 1)),
                     .laps = rows.boolean(row, 2),
                     .oldest = rows.time(row, 3),
                     .first_seq = rows.integer(row, 4),
                     .last_seq = rows.integer(row, 5)});
    slot_length = std::chrono::seconds(rows.integer(row, 6));
  }
  return found;
}

// Before all that costs more: a dump takes long, and we come again and again.
void PgUpkeep::look_who_uses(std::vector<Slot>& slots) {
  if (std::ranges::none_of(slots, &Slot::is_old)) return;
  const PgRows rows = ask(query("slots_in_use", "SELECT slot, by FROM {schema}.slots_in_use()"), {});
  for (int row = 0; row < rows.size(); ++row)
    for (Slot& slot : slots)
      if (slot.is_old() && slot.number == rows.integer(row, 0)) slot.in_use_by = rows.text(row, 1);
}

void PgUpkeep::look_who_holds(std::vector<Slot>& slots) {
  const PgQuery holding =
      query("holding", "SELECT destination, events, oldest FROM {schema}.holding($1::smallint, $2::bigint)");
  for (Slot& slot : slots) {
    if (!slot.is_old() || !slot.in_use_by.empty()) continue;
    const PgRows rows = ask(holding, {std::to_string(slot.number), std::to_string(exact_count_max)});
    for (int row = 0; row < rows.size(); ++row)
      slot.holders.push_back(
          {.destination = std::string(rows.text(row, 0)), .events = rows.integer(row, 1), .oldest = rows.time(row, 2)});
  }
}

Count PgUpkeep::count(const Slot& slot) {
  const PgRows rows =
      ask(query("clean_count", postgres_sql::clean_count, slot.number), {std::to_string(exact_count_max)});
  return count_of(rows.integer(0, 0), rows.integer(0, 1));
}

std::string PgUpkeep::empty(const Slot& slot, const CleanOptions& options) {
  // Most of what is undelivered is copied beforehand, a little at a time: so the lock is held for a moment only.
  const PgQuery keep = query("keep", "SELECT {schema}.keep($1::smallint, $2::bigint)");
  while (ask(keep, {std::to_string(slot.number), std::to_string(copies_at_once)}).integer(0, 0) > 0)
    if (options.stop.stop_requested()) return "stopped";
  if (!options.archive_to.empty()) return archive_and_empty(slot, options);
  const PgRows rows = ask(query("empty", "SELECT {schema}.empty_slot($1::smallint, $2::bigint * interval '1 second')"),
                          {std::to_string(slot.number), seconds_text(options.events_older_than)});
  return std::string(rows.text(0, 0));
}

// What one snapshot sees is written, without a lock that anybody would wait for; if there is anything else in the slot
// by then, it stays, and the file goes. Whether it could be emptied is tried first, as if nothing had been archived, so
// that nothing is written for nothing. The file is in its place before the commit: after a crash in between, the slot
// is still full, and the next time the same file is written once more. Meanwhile the transaction has no number, so it
// keeps nothing from being vacuumed, and no lock but the one that keeps others from cleaning.
std::string PgUpkeep::archive_and_empty(const Slot& slot, const CleanOptions& options) {
  PgConnection& line = connection();
  const PgQuery empty =
      query("empty", "SELECT {schema}.empty_slot($1::smallint, $2::bigint * interval '1 second', $3::pg_snapshot)");
  const PgQuery alone = query("clean_alone", "SELECT {schema}.clean_alone(), pg_current_snapshot()::text");
  const std::string number = std::to_string(slot.number);
  const std::string age = seconds_text(options.events_older_than);
  const std::string settings =
      "SET LOCAL synchronous_commit = on; SET LOCAL TimeZone = 'UTC'; "
      "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL jit = off; "
      "SET LOCAL idle_in_transaction_session_timeout = '10min'";
  line.begin(settings);
  try {
    std::string result(line.run({&empty, {number, age, "3:3:"}}).text(0, 0));
    line.script("ROLLBACK");
    line.begin(settings);
    if (result == "changed") {
      const PgRows present = line.run({&alone});
      if (present.boolean(0, 0)) {
        const std::string snapshot(present.text(0, 1));
        ArchiveFile file(options.archive_to, fmt::format("{}-{:016}-{:016}.jsonl", database_->options.schema,
                                                         slot.first_seq, slot.last_seq));
        result = "stopped";
        if (archive(slot, snapshot, options.stop, file)) {
          file.sync();
          result = line.run({&empty, {number, age, snapshot}}).text(0, 0);
        }
        if (result == "emptied") file.put_in_place();
      } else {
        result = "busy";
      }
    }
    if (result == "emptied") {
      line.commit();
    } else {
      line.script("ROLLBACK");
    }
    return result;
  } catch (...) {
    connection_.reset();  // Rolls back, if that is still to be done.
    throw;
  }
}

bool PgUpkeep::archive(const Slot& slot, const std::string& snapshot, const std::stop_token& stop, ArchiveFile& file) {
  const PgQuery lines = query("archive", postgres_sql::archive, slot.number);
  std::string shard = "-1";
  std::string seq = "0";
  while (true) {
    const PgRows rows = connection().run(
        {&lines, {snapshot, shard, seq, std::to_string(lines_at_once), std::to_string(line_bytes_at_once)}});
    if (rows.size() == 0) return true;
    for (int row = 0; row < rows.size(); ++row) file.add_line(rows.text(row, 0));
    shard = std::to_string(rows.integer(rows.size() - 1, 1));
    seq = std::to_string(rows.integer(rows.size() - 1, 2));
    if (stop.stop_requested()) return false;
  }
}

void PgUpkeep::sweep(const CleanOptions& options, Cleaned& cleaned) {
  const PgQuery sweep =
      query("sweep",
            "SELECT dead, dedup, more FROM {schema}.sweep($1::bigint * interval '1 second', "
            "$2::bigint * interval '1 second', $3::bigint * interval '1 second', $4::bigint, $5::boolean)");
  const PgRows rows =
      ask(sweep, {seconds_text(options.events_older_than), seconds_text(options.dead_older_than),
                  seconds_text(options.dedup_older_than),
                  std::to_string(options.dry ? exact_count_max + 1 : rows_at_once), options.dry ? "t" : "f"});
  cleaned.dead = count_of(rows.integer(0, 0), 0);
  cleaned.dedup = count_of(rows.integer(0, 1), 0);
  cleaned.more = cleaned.more || rows.boolean(0, 2);
}

// What the library keeps for applications; each kind in a transaction of its own.
void PgUpkeep::sweep_library(const CleanOptions& options, Cleaned& cleaned) {
  const auto swept = [&](const char* name, const char* call, std::int64_t most, PgParameters parameters) {
    parameters.emplace_back(std::to_string(options.dry ? exact_count_max + 1 : most));
    parameters.emplace_back(options.dry ? "t" : "f");
    const std::int64_t rows = ask(query(name, call), std::move(parameters)).integer(0, 0);
    cleaned.more = cleaned.more || (!options.dry && rows >= most);
    return count_of(rows, 0);
  };
  cleaned.inbox =
      swept("sweep_inbox", "SELECT {schema}.sweep_inbox($1::bigint * interval '1 second', $2::bigint, $3::boolean)",
            rows_at_once, {seconds_text(options.inbox_older_than)});
  cleaned.idempotency =
      swept("sweep_idempotency", "SELECT {schema}.sweep_idempotency($1::bigint, $2::boolean)", answers_at_once, {});
}

// The work is in SQL (migrations/004_upkeep.sql), for people to call as well. Connects without the check that would
// stop everybody else here.
Anchored PgUpkeep::anchor(const Operation& operation, bool dry) {
  PgConnection line = database_->connect_unchecked("anchor", PgRight::own, pg_no_limit);
  const PgQuery call =
      query("anchor", "SELECT needed, difference, events FROM {schema}.anchor($1::boolean, $2::uuid, $3)");
  const PgRows rows = line.run(
      {&call,
       {dry ? "t" : "f", operation.id.to_string(), operation.by.empty() ? std::nullopt : std::optional(operation.by)}});
  return {
      .needed = rows.boolean(0, 0), .found = std::string(rows.text(0, 1)), .to_be_sent = {.value = rows.integer(0, 2)}};
}

}  // namespace

std::unique_ptr<Upkeep> postgres_upkeep(const PgDatabasePtr& database) {
  return std::make_unique<PgUpkeep>(database);
}

}  // namespace waybill
