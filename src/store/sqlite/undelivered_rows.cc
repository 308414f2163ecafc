#include "store/sqlite/undelivered_rows.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/time_text.h"
#include "model/routing.h"
#include "model/standing.h"
#include "store/sqlite/cursor.h"

namespace waybill {

using namespace std::chrono_literals;

const std::string_view undelivered_columns =
    "destination, seq, key, standing, blocks, attempts, crashes, sending, due, error, id, since, redrives, "
    "payload, headers, blamed, in_doubt, ignore_expiry";

namespace {

constexpr std::int64_t exact_count_max = 10'000;

// A word of a later version is `held`: nothing happens to it by itself.
Standing standing_of(std::string_view text) {
  return parse_standing(text).value_or(Standing::held);
}

Outcome::Kind outcome_of(std::string_view text) {
  using Kind = Outcome::Kind;
  for (const Kind kind : {Kind::delivered, Kind::retry, Kind::rejected, Kind::unavailable})
    if (to_string(kind) == text) return kind;
  return Kind::unknown;
}

bool like(const std::string& pattern, std::string_view text) {
  return pattern.empty() || matches(pattern, text);
}

bool asks_for_the_event(const UndeliveredFilter& filter) {
  return !filter.topic.empty() || !filter.type.empty() || !filter.tenant.empty() || !filter.aggregate_type.empty() ||
         !filter.aggregate_id.empty() || !filter.key.empty();
}

bool event_matches(const UndeliveredFilter& filter, const EventView& event) {
  return like(filter.topic, event.topic) && like(filter.type, event.type) && like(filter.tenant, event.tenant) &&
         like(filter.aggregate_type, event.aggregate_type) && like(filter.aggregate_id, event.aggregate_id) &&
         like(filter.key, ordering_key(event));
}

// What of the filter the table itself can tell. ?1 is the destination, ?2 and ?3 the times, ?4 the number.
std::string where(const UndeliveredFilter& filter) {
  std::string sql = filter.destination.empty() ? "?1 = ''" : "destination = ?1";
  sql += filter.since ? " AND since >= ?2" : " AND ?2 = ''";
  sql += filter.until ? " AND since < ?3" : " AND ?3 = ''";
  sql += filter.before_seq ? " AND seq < ?4" : " AND ?4 = 0";
  std::string list;
  for (const Standing standing : filter.standings)
    list += fmt::format("{}'{}'", list.empty() ? "" : ", ", to_string(standing));
  if (!list.empty()) sql += fmt::format(" AND standing IN ({})", list);
  list.clear();
  for (const EventId& id : filter.ids) list += fmt::format("{}'{}'", list.empty() ? "" : ", ", id.to_string());
  if (!list.empty()) sql += fmt::format(" AND id IN ({})", list);
  return sql;
}

Count count(const Database& state, std::string_view rows, const std::string& destination) {
  Query query = state.query(fmt::format("SELECT count(*) FROM ({} LIMIT {})", rows, exact_count_max + 1));
  query.bind(1, destination).step();
  return {.value = std::min(query.integer(0), exact_count_max), .exact = query.integer(0) <= exact_count_max};
}

}  // namespace

std::int64_t microseconds(Time time) {
  return time.time_since_epoch().count();
}

UndeliveredRow undelivered_row(const Query& row, Time now) {
  UndeliveredRow read{.destination = std::string(row.text(0)),
                      .row = {.seq = row.integer(1),
                              .key = static_cast<std::uint64_t>(row.integer(2)),
                              .standing = standing_of(row.text(3)),
                              .blocks = row.integer(4) != 0,
                              .attempts = static_cast<std::int32_t>(row.integer(5)),
                              .crashes = static_cast<std::int32_t>(row.integer(6)),
                              .blamed = static_cast<std::int32_t>(row.integer(15)),
                              .sending = static_cast<Undelivered::Sending>(row.integer(7)),
                              .error = std::string(row.text(9)),
                              .in_doubt = row.integer(16) != 0,
                              .ignore_expiry = row.integer(17) != 0},
                      .id = std::string(row.text(10)),
                      .since = parse_rfc3339(row.text(11)).value_or(Time{}),
                      .due = Time(std::chrono::microseconds(row.integer(8))),
                      .redrives = static_cast<std::int32_t>(row.integer(12))};
  read.row.wait = std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(read.due - now));
  if (!row.null(13)) read.payload = row.text(13);
  if (!row.null(14)) read.headers = row.text(14);
  return read;
}

EventFinder::EventFinder(const Database& log, const Database& state)
    : in_log_(log.query(fmt::format("SELECT {} FROM waybill_event WHERE seq = ?1", event_columns()))),
      kept_(state.query(fmt::format("SELECT {} FROM kept WHERE seq = ?1", event_columns()))) {}

bool EventFinder::add(std::int64_t seq, EventRows& rows) {
  for (Query* query : {&in_log_, &kept_}) {
    query->bind(1, seq);
    const bool found = query->step();
    if (found) rows.add(*query);
    query->reset();
    if (found) return true;
  }
  return false;
}

void each_undelivered(const Database& state, EventFinder& finder, const UndeliveredFilter& filter,
                      std::string_view condition, bool newest_first,
                      const std::function<bool(const UndeliveredRow&)>& visit) {
  const Time now = system_clock().now();
  Query query = state.query(fmt::format("SELECT {} FROM undelivered WHERE {} AND {} ORDER BY seq {}",
                                        undelivered_columns, where(filter), condition, newest_first ? "DESC" : ""));
  query.bind(1, filter.destination)
      .bind(2, filter.since ? to_rfc3339(*filter.since) : "")
      .bind(3, filter.until ? to_rfc3339(*filter.until) : "")
      .bind(4, filter.before_seq.value_or(0));
  while (query.step()) {
    const UndeliveredRow row = undelivered_row(query, now);
    if (!like(filter.error, row.row.error)) continue;
    if (asks_for_the_event(filter)) {
      EventRows rows;
      if (!finder.add(row.row.seq, rows) || !event_matches(filter, rows.events[0])) continue;
    }
    if (!visit(row)) return;
  }
}

UndeliveredList list_undelivered(const Database& log, const Database& state, const UndeliveredFilter& filter) {
  EventFinder finder(log, state);
  EventRows rows;
  UndeliveredList list;
  if (filter.limit > 0)
    each_undelivered(state, finder, filter, "TRUE", true, [&](const UndeliveredRow& row) {
      if (!finder.add(row.row.seq, rows))
        rows.events.push_back({.seq = row.row.seq, .id = EventId::parse(row.id).value_or(EventId{})});
      UndeliveredView view{.destination = row.destination,
                           .row = row.row,
                           .event = rows.events.back(),
                           .edit = {.payload = row.payload, .headers = row.headers},
                           .since = row.since,
                           .redrives = row.redrives};
      view.event.redrives = row.redrives;
      if (waits(row.row.standing)) view.due = row.due;
      list.events.push_back(std::move(view));
      return std::ssize(list.events) < filter.limit;
    });
  list.memory = rows.memory();
  return list;
}

namespace {

BlockedKeyView blocked_key(const Database& state, EventFinder& finder, const UndeliveredRow& first) {
  BlockedKeyView view{.destination = first.destination,
                      .first = EventId::parse(first.id).value_or(EventId{}),
                      .standing = first.row.standing,
                      .error = first.row.error,
                      .since = first.since};
  if (waits(first.row.standing)) view.due = first.due;
  EventRows rows;
  if (finder.add(first.row.seq, rows)) {
    view.tenant = rows.events[0].tenant;
    view.key = ordering_key(rows.events[0]);
  }
  view.events = count(state,
                      fmt::format("SELECT 1 FROM undelivered WHERE destination = ?1 AND key = {} AND blocks",
                                  static_cast<std::int64_t>(first.row.key)),
                      first.destination);
  return view;
}

}  // namespace

std::vector<BlockedKeyView> list_blocked_keys(const Database& log, const Database& state,
                                              const std::string& destination, int limit) {
  EventFinder finder(log, state);
  Query next =
      state.query(fmt::format("SELECT {} FROM undelivered WHERE destination = ?1 AND key > ?2 AND key <> 0 AND blocks "
                              "ORDER BY key, seq LIMIT 1",
                              undelivered_columns));
  std::vector<BlockedKeyView> list;
  const Time now = system_clock().now();
  for (const std::string& name : placed_destinations(state)) {
    if (!destination.empty() && name != destination) continue;
    for (std::int64_t key = INT64_MIN; std::ssize(list) < limit;) {
      next.bind(1, name).bind(2, key);
      if (!next.step()) break;
      const UndeliveredRow first = undelivered_row(next, now);
      next.reset();
      key = static_cast<std::int64_t>(first.row.key);
      list.push_back(blocked_key(state, finder, first));
    }
  }
  return list;
}

void count_undelivered(const Database& state, DestinationStatus& destination) {
  for (const Standing standing : all_standings) {
    const Count found = count(
        state, fmt::format("SELECT 1 FROM undelivered WHERE destination = ?1 AND standing = '{}'", to_string(standing)),
        destination.name);
    if (found.value > 0) destination.undelivered[standing] = found;
  }
  Query most = state.query(
      fmt::format("SELECT coalesce(max(attempts), 0) FROM (SELECT attempts FROM undelivered WHERE destination = ?1 AND "
                  "standing = 'retrying' LIMIT {})",
                  exact_count_max));
  most.bind(1, destination.name).step();
  destination.attempts_most = static_cast<std::int32_t>(most.integer(0));
  // Leaps from key to key: one may have very many events.
  destination.blocked_keys =
      count(state,
            "WITH RECURSIVE k(key) AS (SELECT min(key) FROM undelivered WHERE destination = ?1 AND key <> 0 AND blocks "
            "UNION ALL SELECT (SELECT min(u.key) FROM undelivered u WHERE u.destination = ?1 AND u.key > k.key AND "
            "u.key <> 0 AND u.blocks) FROM k WHERE k.key IS NOT NULL) SELECT 1 FROM k WHERE key IS NOT NULL",
            destination.name);
}

std::vector<Attempt> attempts_at(const Database& state, const std::string& destination, std::int64_t seq) {
  Query query =
      state.query("SELECT number, at, outcome, error FROM attempt WHERE destination = ?1 AND seq = ?2 ORDER BY entry");
  query.bind(1, destination).bind(2, seq);
  std::vector<Attempt> attempts;
  while (query.step())
    attempts.push_back({.seq = seq,
                        .number = static_cast<std::int32_t>(query.integer(0)),
                        .at = parse_rfc3339(query.text(1)).value_or(Time{}),
                        .outcome = outcome_of(query.text(2)),
                        .error = std::string(query.text(3))});
  return attempts;
}

}  // namespace waybill
