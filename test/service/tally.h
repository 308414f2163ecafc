#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/event_store.h"
#include "waybill/projection.h"

namespace waybill {

struct Counted {
  static constexpr std::string_view type_name = "counted";
  std::string to_json() const { return "{}"; }
  static Counted from_json(std::string_view) { return {}; }
};

// A projection that notices whatever goes wrong: an event that is missing, comes twice or not in its stream's order is
// out of order. `extra` is called with each event.
inline Projection tally(std::function<void(const RecordedEvent&, Connection&)> extra = {}) {
  Projection projection;
  projection.name = "tally";
  projection.ddl =
      "CREATE TABLE tally_stream (tenant text, type text, id text, events bigint, last bigint, disorder bigint, "
      "PRIMARY KEY (tenant, type, id))";
  projection.handlers.on<Counted>(
      [extra = std::move(extra)](const Counted&, const RecordedEvent& event, Connection& db) {
        if (extra) extra(event, db);
        db.run(
            "INSERT INTO tally_stream AS t (tenant, type, id, events, last, disorder) VALUES ($1, $2, $3, 1, $4, $5) "
            "ON CONFLICT (tenant, type, id) DO UPDATE SET events = t.events + 1, last = excluded.last, disorder = "
            "t.disorder + CASE WHEN excluded.last = t.last + 1 THEN 0 ELSE 1 END",
            event.stream.tenant, event.stream.type, event.stream.id, event.version, event.version == 1 ? 0 : 1);
      });
  return projection;
}

// Where the tables of a live projection are.
inline std::string tally_table(Connection& db, const std::string& name) {
  return (db.dialect() == Dialect::sqlite ? "" : "tally.") + name;
}

// "": the tables say exactly what the event store says, of all streams that `where` admits.
inline std::string difference(Connection& db, const std::string& where = "true") {
  const bool sqlite = db.dialect() == Dialect::sqlite;
  const std::string store = std::string(sqlite ? "waybill_" : "waybill.") + "stream_event";
  const Rows streams = db.run(
      "SELECT s.tenant, s.type, s.id, s.n, coalesce(t.events, 0), coalesce(t.last, 0), coalesce(t.disorder, 0) FROM "
      "(SELECT "
      "tenant, aggregate_type AS type, aggregate_id AS id, count(*) AS n FROM " +
      store + " WHERE " + where + " GROUP BY 1, 2, 3) s LEFT JOIN " + tally_table(db, "tally_stream") +
      " t ON t.tenant = s.tenant AND t.type = s.type AND t.id = s.id WHERE t.events IS NULL OR t.events <> s.n OR "
      "t.last <> s.n OR t.disorder <> 0 LIMIT 3");
  std::string text;
  for (std::size_t row = 0; row < streams.size(); ++row)
    text += streams.text(row, 1) + '/' + streams.text(row, 2) + ": " + streams.text(row, 3) + " events, " +
            streams.text(row, 4) + " handled up to " + streams.text(row, 5) + ", " + streams.text(row, 6) +
            " out of order; ";
  const Rows strange =
      db.run("SELECT count(*) FROM " + tally_table(db, "tally_stream") + " t WHERE NOT EXISTS (SELECT 1 FROM " + store +
             " WHERE tenant = t.tenant AND aggregate_type = t.type AND aggregate_id = t.id AND " + where + ")");
  if (strange.integer(0, 0) != 0) text += strange.text(0, 0) + " streams that are not there";
  return text;
}

inline std::int64_t append_counted(Connection& db, const StreamId& stream, int events = 1,
                                   Expected expected = Expected::any()) {
  std::vector<Event> made;
  for (int i = 0; i < events; ++i) made.push_back(to_event(Counted{}));
  return EventStore().append(db, stream, expected, made);
}

// What a call complains of; empty: nothing.
template <typename Call>
std::string failure(const Call& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace waybill
