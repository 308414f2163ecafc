#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "database/sql_text.h"
#include "service/checks.h"
#include "service/projection/tables.h"
#include "service/recorded.h"
#include "service_sql.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t batch_most = 500;
// So many events are passed by one statement.
constexpr std::int64_t passed_at_once = 20'000;
// How long a runner waits for its turn; and a rebuild, which has more to lose. A runner that says nothing for a minute
// in the middle of a batch is cut off by the server.
constexpr auto turn_patience = 10s;
constexpr auto swap_patience = 120s;
constexpr auto silence_most = 60s;
constexpr auto rebuild_patience = 2s;
constexpr auto drop_patience = 2s;
constexpr std::int64_t few = 20;

// Before the first transaction.
constexpr std::string_view nothing = "3:3:";

constexpr std::string_view columns =
    "e.id, e.version, e.position, e.topic, e.type, e.payload, encode(e.payload_bytes, 'hex'), e.metadata, e.schema_id, "
    "e.schema_version, to_char(e.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), "
    "to_char(e.recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), e.tenant, e.aggregate_type, "
    "e.aggregate_id, coalesce(octet_length(e.payload::text), 2 * octet_length(e.payload_bytes), 0) + "
    "coalesce(octet_length(e.metadata::text), 0) AS bytes";
constexpr std::string_view wanted =
    "($3::text IS NULL OR e.aggregate_type = $3) AND ($4::text IS NULL OR e.tenant = $4) AND ($5::text[] IS NULL OR "
    "e.type = ANY ($5::text[]))";

// Whatever the statistics say: an index has the order. Handlers have their own plans.
constexpr std::string_view by_index =
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; SET LOCAL jit = "
    "off";
constexpr std::string_view as_before =
    "SET LOCAL enable_seqscan TO DEFAULT; SET LOCAL enable_bitmapscan TO DEFAULT; SET LOCAL enable_sort TO DEFAULT; "
    "SET "
    "LOCAL jit TO DEFAULT";

std::string statement(std::string_view text, const std::string& schema) {
  return with_room(filled_in(filled_in(filled_in(text, "schema", schema), "columns", columns), "wanted", wanted));
}

// All that is visible in `settled` is handled, and of what is visible in `walking`, if that is set, what has a position
// up to `upto`. Snapshots as the server writes them.
struct Checkpoint {
  std::string settled{};
  std::string walking{};
  std::int64_t upto = 0;
  std::int64_t floor = 0;
  std::int64_t ceiling = 0;
};

enum class Which { live, shadow };

// A window is what is visible in a snapshot and was not in the one before; see docs/decisions/0001 and 0011. Whoever
// moves a checkpoint holds the lock of its turn until the end of his transaction. It is no lock on a row: that would
// give the transaction a number before it looks, and what a handler appends would count as seen.
class PostgresTables final : public ProjectionTables {
 public:
  PostgresTables(const Projection& projection, const std::string& schema, const Log& log)
      : projection_(projection),
        schema_(schema),
        log_(log),
        checkpoint_(statement(service_sql::checkpoint, schema)),
        news_(statement(service_sql::news, schema)),
        probe_(statement(service_sql::probe, schema)),
        bounds_(statement(service_sql::bounds, schema)),
        walk_(statement(service_sql::walk, schema)),
        save_(statement(service_sql::save, schema)),
        batch_(batch_most) {}

  void make(Connection& db, bool fed) override {
    with_retries(
        db, [&](Connection&) { find_or_make(db, fed ? Use::feed : Use::follow); }, in_transaction());
  }

  bool news(Connection& db) override {
    std::optional<Transaction> look;  // It costs two round trips to name a tenant.
    if (!projection_.tenant.empty()) look.emplace(db, in_transaction().transaction);
    const Rows found = db.run(news_, projection_.name);
    return found.empty() || found.boolean(0, 0);
  }

  Step step(Connection& db) override { return step(db, Which::live); }

  // Nothing that the live one does waits for it, but for the transaction in which they are exchanged. That holds the
  // turns of both: so the live one has handled nothing that the new one has not, and writes into the new tables
  // afterwards.
  void rebuild(Connection& db, const Connect& connect, const Tell& tell) override {
    const auto guard = connect();
    Transaction alone(*guard);  // Has neither a number nor a snapshot: it holds nobody back.
    be_alone(*guard);
    const auto begun = std::chrono::steady_clock::now();
    prepare(db);
    std::int64_t done = 0;
    try {
      const std::int64_t about = estimate(db);
      const auto told = [&](const Step& step) {
        const std::int64_t now = done + step.handled;
        tell(now, std::max(now, about));
      };
      for (bool exchanged = false; !exchanged;) {
        // The live one waits while they are exchanged: first to where little is left, or no less than before.
        std::int64_t before = INT64_MAX;
        for (Step step; !step.level() || (step.handled > few && step.handled < before / 2);) {
          before = step.level() ? step.handled : INT64_MAX;
          step = this->step(db, Which::shadow);
          told(step);
          done += step.handled;
        }
        const Step last = exchange(db, told);
        done += last.handled;
        exchanged = last.level();
      }
    } catch (...) {
      clear_up(db, Which::shadow);
      throw;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    log_.info("projection rebuilt", {{"projection", projection_.name},
                                     {"events", std::to_string(done)},
                                     {"took", fmt::format("{:.3f} s", took.count())},
                                     {"exchange", fmt::format("{:.1f} ms", exchange_took_.count())}});
    clear_up(db, std::nullopt);
  }

 private:
  std::string name(Which which) const {
    return which == Which::live ? projection_.name : projection_.name + "__shadow";
  }
  std::string old_name() const { return projection_.name + "__old"; }
  std::string mark() const { return "waybill projection " + projection_.name; }
  RetryOptions in_transaction() const { return {.transaction = {.tenant = projection_.tenant}}; }

  std::string lock_number(std::string_view what) const {
    return fmt::format("pg_catalog.hashtextextended('{} projection {} {}', 0)", schema_, projection_.name, what);
  }

  // What is read after it was written by whoever had the turn before; a statement of its own, since what a statement
  // sees is fixed before it waits.
  void take_turn(Connection& db, Which which, std::chrono::seconds patience) const {
    try {
      db.script(fmt::format(
          "SET LOCAL lock_timeout = '{}s'; SELECT pg_catalog.pg_advisory_xact_lock({}); SET LOCAL lock_timeout TO "
          "DEFAULT; SET LOCAL idle_in_transaction_session_timeout = '{}s'",
          patience.count(), lock_number(which == Which::live ? "live" : "shadow"), silence_most.count()));
    } catch (const Error& error) {
      throw_about(fmt::format("projection '{}', waiting for its turn", projection_.name), error);
    }
  }

  // Of several rebuilds one. Nothing depends on it but their time: each batch of theirs has its turn.
  void be_alone(Connection& guard) const {
    guard.script("SET LOCAL idle_in_transaction_session_timeout = 0");
    const auto deadline = std::chrono::steady_clock::now() + rebuild_patience;  // for one that was killed just now
    while (!guard.run(fmt::format("SELECT pg_catalog.pg_try_advisory_xact_lock({})", lock_number("rebuild")))
                .boolean(0, 0)) {
      if (std::chrono::steady_clock::now() > deadline)
        throw Error(Remedy::retry,
                    fmt::format("projection '{}': another rebuild of it is under way", projection_.name));
      std::this_thread::sleep_for(50ms);
    }
  }

  // None: it is not made. Throws Error(fix_config) if what is stored means nothing here, or is not for that.
  std::optional<Checkpoint> read(Connection& db, Which which, Use use) const {
    const Rows rows = db.run(checkpoint_, projection_.name, which == Which::shadow);
    if (!rows.boolean(0, 6))
      throw Error(
          Remedy::fix_config,
          fmt::format("projection '{}': the tables in schema '{}' were made in another cluster or database (a "
                      "restored dump, a clone, an upgrade): transaction numbers mean something else here. Nothing "
                      "is handled; 'waybill anchor --dry-run' shows how to go on",
                      projection_.name, schema_));
    if (projection_.tenant.empty() && !rows.boolean(0, 7))
      throw Error(Remedy::fix_config,
                  fmt::format("projection '{}': the user {} sees the events of one tenant only, and "
                              "would pass over the others'; GRANT {}_reader TO {}, or give the "
                              "projection a tenant",
                              projection_.name, rows.text(0, 8), schema_, rows.text(0, 8)));
    if (rows.null(0, 0)) return std::nullopt;
    check_use(projection_, use, rows.integer(0, 0), rows.null(0, 1));
    Checkpoint found{.settled = text_at(rows, 0, 1), .walking = text_at(rows, 0, 2)};
    if (!found.walking.empty()) {
      found.upto = rows.integer(0, 3);
      found.floor = rows.integer(0, 4);
      found.ceiling = rows.integer(0, 5);
    }
    return found;
  }

  Step step(Connection& db, Which which) {
    return with_retries(
        db,
        [&](Connection&) {
          take_turn(db, which, turn_patience);
          // A rebuild that is lost in a crash begins anew.
          if (which == Which::shadow) db.script("SET LOCAL synchronous_commit = off");
          return advance(db, which);
        },
        in_transaction());
  }

  // REQUIRES: its turn, and nothing written yet in this transaction.
  Step advance(Connection& db, Which which) {
    auto at = read(db, which, Use::follow);
    if (!at)
      throw Error(Remedy::retry, fmt::format("projection '{}': its {} was dropped by somebody", projection_.name,
                                             which == Which::live ? "checkpoint" : "shadow"));
    Step step;
    std::vector<RecordedEvent> events;
    db.script(std::string(by_index));
    if (at->walking.empty()) {
      const Rows rows = look(db, probe_, *at, batch_.value() + 1);
      events = events_of(rows);
      step = {.looked = true, .done = is_whole(rows, events) && events.size() <= batch_.value()};
      (step.done ? at->settled : at->walking) = rows.text(0, 0);
      if (!step.done) find_bounds(db, *at);
    }
    if (!at->walking.empty()) {
      const Rows rows = look(db, walk_, *at, batch_.value());
      events = events_of(rows);
      if (is_whole(rows, events) && events.size() < batch_.value()) {
        *at = {.settled = at->walking};
        step.done = true;
      } else {
        at->upto = events.back().position;
      }
    }
    step.handled = std::ssize(events);
    db.script(std::string(as_before));
    if (!events.empty()) enter_schema(db, name(which));
    handle_all(db, projection_, events);
    save(db, which, *at, step.handled);
    batch_.learn(events);
    return step;
  }

  Rows look(Connection& db, const std::string& sql, const Checkpoint& at, std::size_t most) const {
    std::string types = "{";
    for (const std::string& type : projection_.handlers.types()) append_element(types, type);
    std::vector<Parameter> parameters{parameter(at.settled), parameter(most), or_null(projection_.stream_type),
                                      or_null(projection_.tenant),
                                      projection_.handlers.ignores_others() ? parameter(types + '}') : Parameter{}};
    if (!at.walking.empty())
      for (const Parameter& more :
           {parameter(at.walking), parameter(at.upto), parameter(at.floor), parameter(at.ceiling)})
        parameters.push_back(more);
    return db.execute(sql, parameters);
  }

  // By position: in a stream that is the order of versions.
  static std::vector<RecordedEvent> events_of(const Rows& rows) {
    std::vector<RecordedEvent> events;
    for (std::size_t row = 0; row < rows.size(); ++row)
      if (!rows.null(row, 1))
        events.push_back(event_at(rows, row, 1, {rows.text(row, 14), rows.text(row, 15), rows.text(row, 13)}));
    std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.position < b.position; });
    return events;
  }

  // Was there room for all that was found?
  static bool is_whole(const Rows& rows, const std::vector<RecordedEvent>& events) {
    return events.empty() || std::ssize(events) == rows.integer(0, 1 + found_column);
  }

  // All that has a number from the end of `settled` on lies above the floor, and all that is visible now up to the
  // ceiling.
  void find_bounds(Connection& db, Checkpoint& at) const {
    const bool from_the_first = at.settled == nothing;
    const Rows end = db.run("SELECT pg_catalog.pg_snapshot_xmax($1::pg_catalog.pg_snapshot)", at.settled);
    std::string xid(end.text(0, 0));
    std::int64_t position = 0;
    std::int64_t least = INT64_MAX;
    const std::int64_t most = from_the_first ? 0 : passed_at_once;
    while (true) {
      const Rows part = db.run(bounds_, xid, position, most);
      at.ceiling = part.integer(0, 4);
      const std::int64_t count = part.integer(0, 1);
      if (count > 0) {
        least = std::min(least, part.integer(0, 0) - 1);
        xid = part.text(0, 2);
        position = part.integer(0, 3);
      }
      if (count < most || most == 0) break;
    }
    at.upto = 0;
    at.floor = least == INT64_MAX ? 0 : least;
  }

  void save(Connection& db, Which which, const Checkpoint& at, std::int64_t handled) const {
    const auto inside = [&](std::int64_t value) { return at.walking.empty() ? Parameter{} : parameter(value); };
    const Rows saved = db.run(save_, projection_.name, which == Which::shadow, at.settled, or_null(at.walking),
                              inside(at.upto), inside(at.floor), inside(at.ceiling), handled);
    WAYBILL_ASSERT(saved.affected() == 1);
  }

  void find_or_make(Connection& db, Use use) const {
    if (read(db, Which::live, use)) return;
    take_turn(db, Which::live, turn_patience);
    if (read(db, Which::live, use)) return;
    make_schema(db, projection_.name);
    enroll(db, Which::live, use == Use::feed);
  }

  void enroll(Connection& db, Which which, bool fed) const {
    db.run(
        statement("INSERT INTO \"{schema}\".projection (name, shadow, version, settled) VALUES ($1, $2::boolean, $3, "
                  "$4::pg_snapshot)",
                  schema_),
        projection_.name, which == Which::shadow, projection_.version, fed ? Parameter{} : parameter(nothing));
  }

  // The schema, marked as ours, and in it what the ddl makes.
  void make_schema(Connection& db, const std::string& name) const {
    const Rows found = db.run(
        "SELECT (SELECT pg_describe_object(d.classid, d.objid, 0) FROM pg_depend d WHERE d.refclassid = "
        "'pg_namespace'::regclass AND d.refobjid = n.oid LIMIT 1) FROM pg_namespace n WHERE n.nspname = $1",
        name);
    if (found.empty()) {
      db.script(fmt::format("CREATE SCHEMA \"{}\"", name));
    } else if (!found.null(0, 0)) {
      throw Error(Remedy::fix_config,
                  fmt::format("projection '{}': the schema '{}' has what is not the projection's, {}; drop or rename "
                              "it, or give the projection another name",
                              projection_.name, name, found.text(0, 0)));
    }
    db.script(fmt::format("COMMENT ON SCHEMA \"{}\" IS '{}'; SET LOCAL search_path = \"{}\"", name, mark(), name));
    try {
      db.script(projection_.ddl);
    } catch (const Error& error) {
      throw_about(fmt::format("projection '{}', its ddl", projection_.name), error);
    }
    // A crash empties an unlogged table, and the checkpoint would not know.
    if (!db.run("SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND "
                "c.relpersistence <> 'p' LIMIT 1",
                name)
             .empty())
      throw Error(
          Remedy::fix_config,
          fmt::format("projection '{}': its tables must not be UNLOGGED: a crash would empty them, and what they "
                      "had would not come again",
                      projection_.name));
  }

  void prepare(Connection& db) const {
    Transaction transaction(db, in_transaction().transaction);
    find_or_make(db, Use::rebuild);
    refuse_strangers(db);
    take_turn(db, Which::shadow, turn_patience);
    refuse_dependents(db, projection_.name);
    drop_shadow(db);
    drop_schema(db, old_name());
    make_schema(db, name(Which::shadow));
    enroll(db, Which::shadow, false);
    transaction.commit();
  }

  // The new tables are those of whoever makes them, and whoever keeps the projection is to own them, too.
  void refuse_strangers(Connection& db) const {
    const Rows owner = db.run(
        "SELECT pg_get_userbyid(n.nspowner), current_user FROM pg_namespace n WHERE n.nspname = $1", projection_.name);
    if (!owner.empty() && owner.text(0, 0) != owner.text(0, 1))
      throw Error(Remedy::fix_config,
                  fmt::format("projection '{}' cannot be rebuilt by the user {}: its schema is {}'s, whose the new "
                              "tables must be; rebuild it as that user",
                              projection_.name, owner.text(0, 1), owner.text(0, 0)));
  }

  // Of what is to be handled: as many as the live one has handled, and has still to, if that can be said.
  std::int64_t estimate(Connection& db) const {
    const Rows rows = db.run(
        statement(
            "SELECT p.handled, p.behind, coalesce((SELECT max(e.position) FROM \"{schema}\".stream_event e), 0) FROM "
            "\"{schema}\".projection_progress p WHERE p.name = $1 AND NOT p.shadow",
            schema_),
        projection_.name);
    if (rows.empty()) return 0;
    const std::int64_t behind = rows.integer(0, 1);
    return behind < ProjectionProgress::behind_max ? rows.integer(0, 0) + behind : rows.integer(0, 2);
  }

  // A last batch for the shadow, and if that brings it level it becomes the live one. No table is locked: readers go
  // on. `told` of it before the commit: what it throws still changes nothing.
  Step exchange(Connection& db, const std::function<void(const Step&)>& told) {
    std::chrono::steady_clock::time_point begun;
    const Step step = with_retries(
        db,
        [&](Connection&) {
          take_turn(db, Which::live, swap_patience);
          begun = std::chrono::steady_clock::now();
          take_turn(db, Which::shadow, turn_patience);
          const Step last = advance(db, Which::shadow);
          told(last);
          if (last.level()) rename(db);
          return last;
        },
        in_transaction());
    exchange_took_ = std::chrono::steady_clock::now() - begun;
    return step;
  }

  void rename(Connection& db) const {
    refuse_dependents(db, projection_.name);
    const Rows privileges = db.run(service_sql::privileges, projection_.name, name(Which::shadow));
    for (std::size_t row = 0; row < privileges.size(); ++row) db.script(privileges.text(row, 0));
    if (exists(db, projection_.name))
      db.script(fmt::format("ALTER SCHEMA \"{}\" RENAME TO \"{}\"", projection_.name, old_name()));
    db.script(fmt::format("ALTER SCHEMA \"{}\" RENAME TO \"{}\"", name(Which::shadow), projection_.name));
    db.run(statement("DELETE FROM \"{schema}\".projection WHERE name = $1 AND NOT shadow", schema_), projection_.name);
    db.run(statement("UPDATE \"{schema}\".projection SET shadow = false WHERE name = $1 AND shadow", schema_),
           projection_.name);
  }

  bool exists(Connection& db, const std::string& schema_name) const {
    return !db.run("SELECT 1 FROM pg_namespace WHERE nspname = $1", schema_name).empty();
  }

  void refuse_dependents(Connection& db, const std::string& schema_name) const {
    const Rows found = db.run(service_sql::dependents, schema_name);
    if (found.empty()) return;
    std::string names;
    for (std::size_t row = 0; row < found.size(); ++row) names += (row == 0 ? "" : ", ") + found.text(row, 0);
    throw Error(Remedy::fix_config,
                fmt::format("projection '{}' cannot be rebuilt: of its tables in schema '{}' depend {}, "
                            "which would go with the old ones; drop it and make it anew afterwards, or "
                            "make it in the projection's ddl",
                            projection_.name, schema_name, names));
  }

  void drop_shadow(Connection& db) const {
    drop_schema(db, name(Which::shadow));
    db.run(statement("DELETE FROM \"{schema}\".projection WHERE name = $1 AND shadow", schema_), projection_.name);
  }

  // With all that is in it, and nothing else. The locks keep anything else from coming to depend on it.
  void drop_schema(Connection& db, const std::string& schema_name) const {
    const Rows found = db.run(
        "SELECT coalesce(obj_description(n.oid, 'pg_namespace'), ''), (SELECT string_agg(format('%I.%I', n.nspname, "
        "c.relname), ', ') FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p')) FROM pg_namespace "
        "n "
        "WHERE n.nspname = $1",
        schema_name);
    if (found.empty()) return;
    if (found.text(0, 0) != mark())
      throw Error(Remedy::fix_config,
                  fmt::format("projection '{}': the schema '{}' is in its way, and not its own; rename "
                              "it",
                              projection_.name, schema_name));
    db.script(fmt::format("SET LOCAL lock_timeout = '{}s'", drop_patience.count()));
    if (!found.null(0, 1)) db.script(fmt::format("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", found.text(0, 1)));
    refuse_dependents(db, schema_name);
    db.script(fmt::format("DROP SCHEMA \"{}\" CASCADE; SET LOCAL lock_timeout TO DEFAULT", schema_name));
  }

  // What a rebuild leaves behind, if it can be dropped now: else the next one will. None: the old tables.
  void clear_up(Connection& db, std::optional<Which> what) const {
    try {
      Transaction transaction(db);
      if (what) {
        take_turn(db, *what, turn_patience);
        drop_shadow(db);
      } else {
        drop_schema(db, old_name());
      }
      transaction.commit();
    } catch (const Error& error) {
      log_.warning("what a rebuild has left is still there; the next one drops it",
                   {{"projection", projection_.name}, {"error", error.what()}});
    }
  }

  const Projection& projection_;
  const std::string schema_;
  const Log log_;
  const std::string checkpoint_;
  const std::string news_;
  const std::string probe_;
  const std::string bounds_;
  const std::string walk_;
  const std::string save_;
  BatchSize batch_;
  std::chrono::duration<double, std::milli> exchange_took_{};
};

}  // namespace

std::unique_ptr<ProjectionTables> postgres_projection(const Projection& projection, const std::string& schema,
                                                      const Log& log) {
  return std::make_unique<PostgresTables>(projection, schema, log);
}

}  // namespace waybill
