#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "service/checks.h"
#include "service/projection/tables.h"
#include "service/recorded.h"
#include "service_sql.h"

namespace waybill {
namespace {

// So that writers, who wait for a batch, need not wait long.
constexpr std::size_t batch_most = 200;

// One writes at a time, so positions are in the order of commits, and a number is a checkpoint.
class SqliteTables final : public ProjectionTables {
 public:
  explicit SqliteTables(const Projection& projection)
      : projection_(projection),
        read_(with_room(service_statement(service_sql::read_sqlite, Dialect::sqlite, ""))),
        batch_(batch_most) {}

  void make(Connection& db, bool fed) override {
    with_retries(db, [&](Connection&) {
      if (!read(db, fed ? Use::feed : Use::follow)) make_tables(db, fed ? parameter(std::nullopt) : parameter(0));
    });
  }

  bool news(Connection& db) override {
    const Rows found = db.run(
        "SELECT changed_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 minute') OR coalesce(e.last > upto, 0), e.last "
        "FROM waybill_projection, (SELECT coalesce(max(position), 0) AS last FROM waybill_stream_event) e WHERE name = "
        "$1",
        projection_.name);
    if (!found.empty()) seen_ = found.integer(0, 1);
    return found.empty() || found.boolean(0, 0);
  }

  Step step(Connection& db) override {
    return with_retries(db, [&](Connection&) {
      const auto upto = read(db, Use::follow);
      if (!upto) throw Error(Remedy::retry, fmt::format("projection '{}' was dropped by somebody", projection_.name));
      return handle_after(db, *upto, seen_);
    });
  }

  void rebuild(Connection& db, const Connect&, const Tell& tell) override {
    Transaction transaction(db);
    read(db, Use::rebuild);
    drop_tables(db);
    make_tables(db, parameter(0));
    const std::int64_t about = db.run("SELECT count(*) FROM waybill_stream_event").integer(0, 0);
    std::int64_t done = 0;
    for (Step step; !step.level(); tell(done, about)) {
      step = handle_after(db, read(db, Use::follow).value(), INT64_MAX);
      done += step.handled;
    }
    transaction.commit();
  }

 private:
  // How far it is; none: it is not made. Of one that is fed, 0. Throws Error(fix_config) if it is not for that.
  std::optional<std::int64_t> read(Connection& db, Use use) const {
    const Rows found = db.run("SELECT version, upto FROM waybill_projection WHERE name = $1", projection_.name);
    if (found.empty()) return std::nullopt;
    check_use(projection_, use, found.integer(0, 0), found.null(0, 1));
    return found.null(0, 1) ? 0 : found.integer(0, 1);
  }

  // It is done when it has come to `last`, or nothing is left.
  Step handle_after(Connection& db, std::int64_t upto, std::int64_t last) {
    const Rows rows =
        db.run(read_, upto, batch_.value(), or_null(projection_.stream_type), or_null(projection_.tenant));
    std::vector<RecordedEvent> events;
    for (std::size_t row = 0; row < rows.size(); ++row)
      events.push_back(event_at(rows, row, 0, {rows.text(row, 13), rows.text(row, 14), rows.text(row, 12)}));
    if (!events.empty()) upto = events.back().position;
    const bool whole = events.empty() || std::ssize(events) == rows.integer(0, found_column);
    const bool nothing_left = whole && events.size() < batch_.value();
    batch_.learn(events);
    const auto types = projection_.handlers.types();
    if (projection_.handlers.ignores_others())
      std::erase_if(events, [&](const RecordedEvent& event) {
        return std::find(types.begin(), types.end(), event.type) == types.end();
      });
    const Step step{.handled = std::ssize(events), .looked = true, .done = nothing_left || upto >= last};
    // All that is there is behind it then, also what does not concern it.
    if (nothing_left)
      upto = std::max(upto, db.run("SELECT coalesce(max(position), 0) FROM waybill_stream_event").integer(0, 0));
    handle_all(db, projection_, events);
    db.run(
        "UPDATE waybill_projection SET upto = $2, handled = handled + $3, changed_at = strftime('%Y-%m-%dT%H:%M:%fZ', "
        "'now') WHERE name = $1",
        projection_.name, upto, step.handled);
    return step;
  }

  // What the ddl makes is written down, so that it can be dropped again.
  void make_tables(Connection& db, const Parameter& upto) {
    const std::string before = db.run("SELECT json_group_array(name) FROM sqlite_master").text(0, 0);
    db.script(projection_.ddl);
    db.run(
        "INSERT INTO waybill_projection (name, version, upto, made) SELECT $1, $2, $3, "
        "json_group_array(json_array(type, name)) FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE "
        "'sqlite\\_%' ESCAPE '\\' AND name NOT IN (SELECT value FROM json_each($4))",
        projection_.name, projection_.version, upto, before);
  }

  void drop_tables(Connection& db) {
    const Rows made = db.run(
        "SELECT json_extract(m.value, '$[0]'), json_extract(m.value, '$[1]') FROM waybill_projection p, "
        "json_each(p.made) m WHERE p.name = $1",
        projection_.name);
    refuse_references(db);
    // They may refer to each other: what counts is that nothing is left. Handlers hear of a wrong key at once again.
    db.script("PRAGMA defer_foreign_keys = ON");
    for (std::size_t row = 0; row < made.size(); ++row)
      db.script(fmt::format("DROP {} IF EXISTS \"{}\"", made.text(row, 0), quoted(made.text(row, 1))));
    db.script("PRAGMA defer_foreign_keys = OFF");
    db.run("DELETE FROM waybill_projection WHERE name = $1", projection_.name);
  }

  // To drop a table deletes its rows, and what refers to them by ON DELETE CASCADE.
  void refuse_references(Connection& db) {
    const Rows found = db.run(
        "SELECT m.name FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table' AND "
        "lower(f.\"table\") "
        "IN (SELECT lower(json_extract(o.value, '$[1]')) FROM waybill_projection p, json_each(p.made) o WHERE p.name = "
        "$1) "
        "AND m.name NOT IN (SELECT json_extract(o.value, '$[1]') FROM waybill_projection p, json_each(p.made) o WHERE "
        "p.name = $1) LIMIT 1",
        projection_.name);
    if (!found.empty())
      throw Error(Remedy::fix_config, fmt::format("projection '{}' cannot be rebuilt: the table '{}' refers to it by a "
                                                  "foreign key; do without, or make it in the projection's ddl",
                                                  projection_.name, found.text(0, 0)));
  }

  static std::string quoted(const std::string& name) {
    std::string text;
    for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
    return text;
  }

  const Projection& projection_;
  const std::string read_;
  BatchSize batch_;
  std::int64_t seen_ = 0;  // The last event when it was asked for news: what is appended since may wait.
};

}  // namespace

std::unique_ptr<ProjectionTables> sqlite_projection(const Projection& projection) {
  return std::make_unique<SqliteTables>(projection);
}

}  // namespace waybill
