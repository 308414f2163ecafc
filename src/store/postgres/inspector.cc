#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "waybill/error.h"

#include "model/rules_json.h"
#include "postgres_sql.h"
#include "store/postgres/database.h"
#include "store/postgres/filter.h"
#include "store/postgres/undelivered.h"

namespace waybill {
namespace {

constexpr std::int64_t exact_count_max = 10'000;
constexpr std::int64_t seq_max = 9'223'372'036'854'775'807;
// How far an application's clock may be from the server's for an event to be found by the time in its id.
constexpr auto clock_difference_max = std::chrono::minutes(10);

// '*' is LIKE's '%'; what LIKE takes for more is taken literally.
std::optional<std::string> like(const std::string& pattern) {
  if (pattern.empty()) return std::nullopt;
  std::string out;
  for (const char c : pattern) {
    if (c == '%' || c == '_' || c == '\\') out += '\\';
    out += c == '*' ? '%' : c;
  }
  return out;
}

// When an id of version 7 was made.
std::optional<Time> time_of(const EventId& id) {
  if (id.bytes[6] >> 4U != 7) return std::nullopt;
  std::int64_t milliseconds = 0;
  for (std::size_t i = 0; i < 6; ++i) milliseconds = milliseconds << 8 | id.bytes[i];
  return Time(std::chrono::milliseconds(milliseconds));
}

Outcome::Kind outcome_of(std::string_view text) {
  using enum Outcome::Kind;
  for (const Outcome::Kind kind : {delivered, retry, rejected, unavailable})
    if (to_string(kind) == text) return kind;
  return unknown;
}

Edit edit_at(const PgRows& rows, int row, int column, bool payload_is_json) {
  Edit edit;
  const int payload = payload_is_json ? column : column + 1;
  if (!rows.null(row, payload)) edit.payload = rows.text(row, payload);
  if (!rows.null(row, column + 2)) edit.headers = rows.text(row, column + 2);
  return edit;
}

std::vector<Trouble> troubles_of(std::string_view json) {
  std::vector<Trouble> troubles;
  for (const auto& each : nlohmann::json::parse(json))
    troubles.push_back({.destination = each.at(0).get<std::string>(), .text = each.at(1).get<std::string>()});
  return troubles;
}

class PgInspector final : public Inspector {
 public:
  explicit PgInspector(PgDatabasePtr database)
      : database_(std::move(database)),
        queries_(database_->queries),
        connection_(database_->connect("inspector", PgRight::read)) {}

  StoreStatus status() override;
  EventList list(const EventFilter& filter) override;
  std::optional<EventStory> find(const EventId& id) override;
  UndeliveredList undelivered(const UndeliveredFilter& filter) override;
  std::vector<BlockedKeyView> blocked_keys(const std::string& destination, int limit) override;
  std::vector<Finding> examine() override;

 private:
  PgRows ask(const PgQuery& query, PgParameters parameters = {}) {
    const PgStatement statement{&query, std::move(parameters)};
    return std::move(connection_.transact(std::span(&statement, 1)).at(0));
  }
  using Memory = std::vector<std::shared_ptr<PGresult>>;  // What views point into.

  std::optional<PgRows> find_event(const EventId& id);
  void load(EventView& event, Memory& memory);
  std::vector<std::vector<EventAtDestination>> states_of(std::span<const EventView> events);
  void add_attempts(const EventView& event, std::vector<EventAtDestination>& destinations);
  std::int64_t first_seq_from(Time time, std::int64_t last);

  PgDatabasePtr database_;
  const PgQueries& queries_;
  PgConnection connection_;
};

Count count_of(std::int64_t counted) {
  return {.value = counted, .exact = counted <= exact_count_max};
}

void add_undelivered(const PgRows& rows, StoreStatus& status) {
  for (int row = 0; row < rows.size(); ++row) {
    const auto destination = std::find_if(status.destinations.begin(), status.destinations.end(),
                                          [&](const auto& each) { return each.name == rows.text(row, 0); });
    if (destination == status.destinations.end()) continue;
    if (rows.null(row, 1)) {
      destination->blocked_keys = count_of(rows.integer(row, 2));
    } else {
      const Standing standing = standing_of(rows.text(row, 1));
      destination->undelivered[standing] = count_of(rows.integer(row, 2));
      if (standing == Standing::retrying) destination->attempts_most = static_cast<std::int32_t>(rows.integer(row, 3));
    }
  }
}

StoreStatus PgInspector::status() {
  const PgParameters counted{std::to_string(exact_count_max)};
  const auto results = connection_.transact(std::vector<PgStatement>{{&queries_.status, counted},
                                                                     {&queries_.destinations},
                                                                     {&queries_.standings, counted},
                                                                     {&queries_.relays},
                                                                     {&queries_.projections}});
  const PgRows& overall = results[0];
  StoreStatus status{.store = "postgresql",
                     .where = describe_postgres(database_->options.url),
                     .schema_version = static_cast<int>(overall.integer(0, 0)),
                     .now = overall.time(0, 1),
                     .events = {.value = overall.integer(0, 2)}};
  if (status.events.value > exact_count_max)
    status.events = {.value = std::max(status.events.value, overall.integer(0, 3)), .exact = false};
  const PgRows& rows = results[1];
  for (int row = 0; row < rows.size(); ++row) {
    DestinationStatus destination{.name = std::string(rows.text(row, 0)),
                                  .pending = {.value = rows.integer(row, 3), .exact = rows.boolean(row, 4)},
                                  .settled_last_minute = rows.integer(row, 7),
                                  .shards = static_cast<int>(rows.integer(row, 1)),
                                  .shards_owned = static_cast<int>(rows.integer(row, 2))};
    if (!rows.null(row, 5)) destination.oldest_pending = rows.time(row, 5);
    if (!rows.null(row, 6)) destination.last_settled = rows.time(row, 6);
    destination.paused = rows.boolean(row, 8);
    status.destinations.push_back(std::move(destination));
  }
  add_undelivered(results[2], status);
  const PgRows& relays = results[3];
  for (int row = 0; row < relays.size(); ++row)
    status.relays.push_back({.id = std::string(relays.text(row, 0)),
                             .name = std::string(relays.text(row, 1)),
                             .alive = relays.boolean(row, 2),
                             .last_seen = relays.time(row, 3),
                             .destinations = nlohmann::json::parse(relays.text(row, 4)).get<std::vector<std::string>>(),
                             .troubles = troubles_of(relays.text(row, 6)),
                             .rules = rules_by_destination(nlohmann::json::parse(relays.text(row, 7))),
                             .shards_owned = static_cast<int>(relays.integer(row, 5))});
  const PgRows& projections = results[4];
  for (int row = 0; row < projections.size(); ++row)
    status.projections.push_back({.name = std::string(projections.text(row, 0)),
                                  .shadow = projections.boolean(row, 1),
                                  .handled = projections.integer(row, 2),
                                  .behind = projections.integer(row, 3),
                                  .lag = std::chrono::milliseconds(projections.integer(row, 4)),
                                  .changed_at = projections.time(row, 5)});
  return status;
}

EventList PgInspector::list(const EventFilter& filter) {
  // Newest first without an index over all shards: looks at the last stretch of the log, then at longer ones.
  const PgRows place = ask(queries_.place, {std::to_string(seq_max)});
  const std::int64_t last = place.integer(0, 1);
  const std::int64_t end = std::min(filter.before_seq.value_or(last + 1), last + 1);
  for (std::int64_t stretch = std::max<std::int64_t>(1'000, 10LL * filter.limit);; stretch *= 10) {
    const std::int64_t from = std::max<std::int64_t>(0, end - 1 - stretch);
    const PgRows rows = ask(queries_.list, {std::to_string(end), like(filter.topic), like(filter.type),
                                            like(filter.tenant), like(filter.aggregate_type), like(filter.aggregate_id),
                                            like(filter.key), parameter(filter.since), parameter(filter.until),
                                            std::to_string(filter.limit), std::to_string(from)});
    if (rows.size() < filter.limit && from > 0) continue;
    EventList list{.events = events_of(rows, 0)};
    Memory memory{rows.memory()};
    if (filter.payloads)
      for (EventView& event : list.events) load(event, memory);
    list.memory = std::make_shared<const Memory>(std::move(memory));
    if (filter.states) list.states = states_of(list.events);
    return list;
  }
}

// The log has no index on ids. An id of version 7 names its time, and seq grows with time: so the search is
// among the events of those minutes. What is kept has one.
std::optional<PgRows> PgInspector::find_event(const EventId& id) {
  std::int64_t from = 0;
  std::int64_t to = seq_max;
  if (const auto time = time_of(id)) {
    const std::int64_t last = ask(queries_.place, {std::to_string(seq_max)}).integer(0, 1);
    from = first_seq_from(*time - clock_difference_max, last);
    to = first_seq_from(*time + clock_difference_max, last);
  }
  PgRows rows = ask(queries_.find, {id.to_string(), std::to_string(from), std::to_string(to)});
  if (rows.size() == 0) rows = ask(queries_.find_kept, {id.to_string()});
  return rows.size() == 0 ? std::nullopt : std::optional(rows);
}

// Its payload, if that was left out for being large.
void PgInspector::load(EventView& event, Memory& memory) {
  if (!event.payload_deferred) return;
  const PgRows payload = ask(queries_.payload, {std::to_string(event.shard), std::to_string(event.seq)});
  if (payload.size() != 1) return;  // It was cleaned meanwhile.
  event.payload = payload.text(0, event.payload_is_json ? 0 : 1);
  event.payload_deferred = false;
  memory.push_back(payload.memory());
}

std::optional<EventStory> PgInspector::find(const EventId& id) {
  const std::optional<PgRows> rows = find_event(id);
  if (!rows) return std::nullopt;
  EventStory story{.event = event_at(*rows, 0)};
  Memory memory{rows->memory()};
  load(story.event, memory);
  story.memory = std::make_shared<const Memory>(std::move(memory));
  story.destinations = std::move(states_of(std::span(&story.event, 1)).front());
  add_attempts(story.event, story.destinations);
  return story;
}

EventAtDestination state_at(const PgRows& rows, int row) {
  EventAtDestination at{.destination = std::string(rows.text(row, 1)), .state = "pending"};
  if (!rows.null(row, 2)) {
    at.state = "published";
    at.settled_at = rows.time(row, 2);
  }
  if (!rows.null(row, 3)) at.state = rows.text(row, 3);
  if (rows.boolean(row, 4)) at.state = "skipped";
  if (!rows.null(row, 5))
    at.skipped_by = {.match = rules_of(nlohmann::json::parse(rows.text(row, 5))), .since = rows.time(row, 6)};
  return at;
}

std::vector<std::vector<EventAtDestination>> PgInspector::states_of(std::span<const EventView> events) {
  std::vector<std::int32_t> shards;
  std::vector<std::int64_t> seqs;
  for (const EventView& event : events) {
    shards.push_back(event.shard);
    seqs.push_back(event.seq);
  }
  const PgRows rows = ask(queries_.story, {pg_array<std::int32_t>(shards), pg_array<std::int64_t>(seqs)});
  std::vector<std::vector<EventAtDestination>> states(events.size());
  for (int row = 0; row < rows.size(); ++row)
    states.at(static_cast<std::size_t>(rows.integer(row, 0)) - 1).push_back(state_at(rows, row));
  return states;
}

void PgInspector::add_attempts(const EventView& event, std::vector<EventAtDestination>& destinations) {
  const PgRows attempts = ask(queries_.attempts_at, {std::to_string(event.shard), std::to_string(event.seq)});
  for (EventAtDestination& at : destinations)
    for (int i = 0; i < attempts.size(); ++i)
      if (attempts.text(i, 0) == at.destination)
        at.attempts.push_back({.seq = event.seq,
                               .number = static_cast<std::int32_t>(attempts.integer(i, 1)),
                               .at = attempts.time(i, 2),
                               .outcome = outcome_of(attempts.text(i, 3)),
                               .error = std::string(attempts.text(i, 4))});
}

UndeliveredList PgInspector::undelivered(const UndeliveredFilter& filter) {
  PgParameters parameters{parameter(filter.destination)};
  append_filter(parameters, filter);
  parameters.emplace_back(std::to_string(filter.limit));
  const PgRows rows = ask(queries_.undelivered_list, std::move(parameters));
  UndeliveredList list;
  constexpr int more = event_columns_count + undelivered_columns_count;
  for (int row = 0; row < rows.size(); ++row) {
    UndeliveredView view{
        .destination = std::string(rows.text(row, more + 1)),
        .row = undelivered_at(rows, row, event_columns_count),
        .event = rows.null(row, 0) ? missing_event(rows, row, event_columns_count, more + 7) : event_at(rows, row),
        .since = rows.time(row, more + 2),
        .redrives = static_cast<std::int32_t>(rows.integer(row, more))};
    view.edit = edit_at(rows, row, more + 4, view.event.payload_is_json);
    view.event.redrives = view.redrives;
    if (waits(view.row.standing)) view.due = rows.time(row, more + 3);
    list.events.push_back(std::move(view));
  }
  Memory memory{rows.memory()};
  if (filter.payloads)
    for (UndeliveredView& view : list.events) load(view.event, memory);
  list.memory = std::make_shared<const Memory>(std::move(memory));
  return list;
}

std::vector<BlockedKeyView> PgInspector::blocked_keys(const std::string& destination, int limit) {
  const PgRows rows =
      ask(queries_.blocked_keys, {parameter(destination), std::to_string(limit), std::to_string(exact_count_max)});
  std::vector<BlockedKeyView> list;
  for (int row = 0; row < rows.size(); ++row) {
    BlockedKeyView view{.destination = std::string(rows.text(row, 0)),
                        .tenant = std::string(rows.text(row, 1)),
                        .key = std::string(rows.text(row, 2)),
                        .events = count_of(rows.integer(row, 3)),
                        .standing = standing_of(rows.text(row, 5)),
                        .error = std::string(rows.text(row, 6)),
                        .since = rows.time(row, 7)};
    std::memcpy(view.first.bytes.data(), rows.text(row, 4).data(), view.first.bytes.size());
    if (!rows.null(row, 8)) view.due = rows.time(row, 8);
    list.push_back(std::move(view));
  }
  return list;
}

// By halving: the least seq from which on events were written at or after `time`, about.
std::int64_t PgInspector::first_seq_from(Time time, std::int64_t last) {
  std::int64_t low = 0;
  std::int64_t high = last + 1;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const PgRows rows = ask(queries_.place, {std::to_string(middle)});
    if (rows.null(0, 0) || rows.time(0, 0) >= time) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

std::vector<Finding> PgInspector::examine() {
  const PgQuery query{"examine", filled_in(postgres_sql::examine, "schema", database_->options.schema)};
  const PgRows rows = connection_.run({&query});
  std::vector<Finding> findings{
      {Finding::Level::ok, "connection",
       fmt::format("{}, server {}", describe_postgres(database_->options.url), connection_.server_version() / 10000),
       ""}};
  for (int row = 0; row < rows.size(); ++row) {
    const std::string_view level = rows.text(row, 0);
    findings.push_back({level == "ok"        ? Finding::Level::ok
                        : level == "note"    ? Finding::Level::note
                        : level == "warning" ? Finding::Level::warning
                                             : Finding::Level::problem,
                        std::string(rows.text(row, 1)), std::string(rows.text(row, 2)),
                        std::string(rows.text(row, 3))});
  }
  if (auto finding = examine_encryption(connection_.encryption())) findings.push_back(std::move(*finding));
  if (connection_.pooled())
    findings.push_back({Finding::Level::note, "pooler", "there is a pooler in between: relays poll for news",
                        "give the relays a direct connection for the shortest delays"});
  return findings;
}

}  // namespace

std::unique_ptr<Inspector> postgres_inspector(const PgDatabasePtr& database) {
  return std::make_unique<PgInspector>(database);
}

}  // namespace waybill
