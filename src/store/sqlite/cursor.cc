#include "store/sqlite/cursor.h"

#include "base/time_text.h"
#include "model/rules_json.h"

namespace waybill {

std::optional<Place> newest_place(const Database& state, const std::string& destination) {
  Query query = state.query(
      "SELECT turn, seq, id, settled_at FROM cursor WHERE destination = ?1 ORDER BY turn DESC, seq DESC LIMIT 1");
  query.bind(1, destination);
  if (!query.step()) return std::nullopt;
  Place place{.turn = query.integer(0), .seq = query.integer(1)};
  if (!query.null(2)) place.id = query.text(2);
  place.settled_at = parse_rfc3339(query.text(3));
  return place;
}

std::vector<std::string> placed_destinations(const Database& state) {
  std::vector<std::string> names;
  // Leaps from name to name: a destination has many rows.
  Query query = state.query("SELECT min(destination) FROM cursor WHERE destination > ?1");
  for (std::string last;; names.push_back(last)) {
    query.bind(1, last);
    query.step();
    if (query.null(0)) return names;
    last = query.text(0);
    query.reset();
  }
}

void append_place(const Database& state, const std::string& destination, const Place& place, std::int64_t count,
                  std::optional<std::int64_t> rules) {
  Query query = state.query(
      "INSERT INTO cursor (destination, turn, seq, id, settled_at, count, rules) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
  if (rules) query.bind(7, *rules);
  query.bind(1, destination).bind(2, place.turn).bind(3, place.seq);
  if (place.id) query.bind(4, *place.id);
  query.bind(5, to_rfc3339(place.settled_at.value_or(system_clock().now()))).bind(6, count).run();
}

std::int64_t note_rules(const Database& state, const std::string& destination, const Match& match) {
  const std::string json = rules_json(match);
  Query newest = state.query("SELECT id, match FROM rules WHERE destination = ?1 ORDER BY id DESC LIMIT 1");
  const bool any = newest.bind(1, destination).step();
  const std::int64_t id = any ? newest.integer(0) : 0;
  if (any && newest.text(1) == json) return id;
  state.query("INSERT INTO rules (destination, id, match, since) VALUES (?1, ?2, ?3, ?4)")
      .bind(1, destination)
      .bind(2, id + 1)
      .bind(3, json)
      .bind(4, to_rfc3339(system_clock().now()))
      .run();
  return id + 1;
}

std::vector<AppliedRules> passed_by(const Database& state, const std::string& destination, std::int64_t seq) {
  const auto newest = newest_place(state, destination);
  std::vector<AppliedRules> passes;
  Query first = state.query(
      "SELECT r.match, r.since FROM (SELECT rules FROM cursor WHERE destination = ?1 AND turn = ?2 AND seq >= ?3 "
      "ORDER BY seq LIMIT 1) c JOIN rules r ON r.destination = ?1 AND r.id = c.rules");
  for (std::int64_t turn = 1; newest && turn <= newest->turn; ++turn) {
    if (first.bind(1, destination).bind(2, turn).bind(3, seq).step())
      passes.push_back({.match = rules_of(nlohmann::json::parse(first.text(0))),
                        .since = parse_rfc3339(first.text(1)).value_or(Time{})});
    first.reset();
  }
  return passes;
}

std::optional<Time> passed_at(const Database& state, const std::string& destination, std::int64_t seq) {
  const auto newest = newest_place(state, destination);
  if (!newest || newest->seq < seq) return std::nullopt;
  Query begin = state.query("SELECT min(seq) FROM cursor WHERE destination = ?1 AND turn = ?2");
  Query first = state.query(
      "SELECT settled_at FROM cursor WHERE destination = ?1 AND turn = ?2 AND seq >= ?3 ORDER BY seq LIMIT 1");
  std::optional<Time> found;
  for (std::int64_t turn = newest->turn; turn > 0; --turn) {
    first.bind(1, destination).bind(2, turn).bind(3, seq);
    if (first.step()) found = parse_rfc3339(first.text(0));
    first.reset();
    begin.bind(1, destination).bind(2, turn);
    begin.step();
    const bool in_this_turn = !begin.null(0) && begin.integer(0) < seq;
    begin.reset();
    if (in_this_turn) break;
  }
  return found;
}

std::int64_t settled_since(const Database& state, const std::string& destination, Time since) {
  const std::string limit = to_rfc3339(since);
  Query query = state.query("SELECT settled_at, count FROM cursor WHERE destination = ?1 ORDER BY turn DESC, seq DESC");
  query.bind(1, destination);
  std::int64_t events = 0;
  while (query.step() && query.text(0) >= limit) events += query.integer(1);
  return events;
}

std::optional<std::string> id_in_log(const Database& log, std::int64_t seq) {
  Query query = log.query("SELECT id FROM waybill_event WHERE seq = ?1");
  query.bind(1, seq);
  if (!query.step()) return std::nullopt;
  return std::string(query.text(0));
}

}  // namespace waybill
