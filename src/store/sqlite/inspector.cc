#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "waybill/error.h"

#include "base/time_text.h"
#include "model/rules_json.h"
#include "store/sqlite/event_rows.h"
#include "store/sqlite/files.h"
#include "store/sqlite/identity.h"
#include "store/sqlite/undelivered_rows.h"

namespace waybill {
namespace {

constexpr std::int64_t exact_count_max = 10'000;

// '*' as in our patterns; everything else of GLOB's taken literally.
std::string glob(const std::string& pattern) {
  std::string out;
  for (const char c : pattern) {
    if (c == '?' || c == '[') {
      out += fmt::format("[{}]", c);
    } else {
      out += c;
    }
  }
  return out;
}

class SqliteInspector final : public Inspector {
 public:
  explicit SqliteInspector(SqliteFilesPtr files)
      : files_(std::move(files)), log_(files_->open_log()), state_(files_->open_state()) {}

  StoreStatus status() override {
    StoreStatus status{.store = "sqlite",
                       .where = files_->log_path,
                       .schema_version = static_cast<int>(log_.number("SELECT max(version) FROM waybill_schema")),
                       .now = system_clock().now(),
                       .events = count_after(0)};
    Query relay = state_.query("SELECT id, name, last_seen, lease_ms, destinations, troubles, rules FROM relay");
    if (relay.step()) status.relays.push_back(relay_of(relay, status.now));
    relay.reset();
    for (const std::string& name : placed_destinations(state_))
      status.destinations.push_back(destination_of(name, status));
    Query projection = log_.query("SELECT name, handled, upto, changed_at FROM waybill_projection ORDER BY name");
    while (projection.step()) status.projections.push_back(projection_of(projection, status.now));
    return status;
  }

  EventList list(const EventFilter& filter) override {
    Query query = log_.query(
        fmt::format("SELECT {} FROM waybill_event WHERE (?1 = 0 OR seq < ?1) AND (?2 = '' OR topic GLOB ?2) "
                    "AND (?3 = '' OR coalesce(type, topic) GLOB ?3) AND (?4 = '' OR tenant GLOB ?4) "
                    "AND (?5 = '' OR aggregate_type GLOB ?5) AND (?6 = '' OR aggregate_id GLOB ?6) "
                    "AND (?7 = '' OR coalesce(key, aggregate_type || '/' || aggregate_id) GLOB ?7) "
                    "AND (?8 = '' OR created_at >= ?8) AND (?9 = '' OR created_at < ?9) ORDER BY seq DESC LIMIT ?10",
                    event_columns()));
    query.bind(1, filter.before_seq.value_or(0))
        .bind(2, glob(filter.topic))
        .bind(3, glob(filter.type))
        .bind(4, glob(filter.tenant))
        .bind(5, glob(filter.aggregate_type))
        .bind(6, glob(filter.aggregate_id))
        .bind(7, glob(filter.key))
        .bind(8, filter.since ? to_rfc3339(*filter.since) : "")
        .bind(9, filter.until ? to_rfc3339(*filter.until) : "")
        .bind(10, filter.limit);
    EventRows rows;
    while (query.step()) rows.add(query);
    EventList list{.events = std::move(rows.events), .memory = rows.memory()};
    if (!filter.states) return list;
    const auto names = placed_destinations(state_);
    for (const EventView& event : list.events) {
      auto& states = list.states.emplace_back();
      for (const std::string& name : names) states.push_back(at_destination(name, event));
    }
    return list;
  }

  std::optional<EventStory> find(const EventId& id) override {
    EventRows rows;
    for (const auto& [database, table] : {std::pair(&log_, "waybill_event"), std::pair(&state_, "kept")}) {
      Query query =
          database->query(fmt::format("SELECT {} FROM {} WHERE lower(id) = ?1 LIMIT 1", event_columns(), table));
      query.bind(1, id.to_string());
      if (!query.step()) continue;
      rows.add(query);
      break;
    }
    if (rows.events.empty()) return std::nullopt;
    EventStory story{.event = rows.events.at(0), .memory = rows.memory()};
    for (const std::string& name : placed_destinations(state_))
      story.destinations.push_back(at_destination(name, story.event));
    for (EventAtDestination& at : story.destinations)
      at.attempts = attempts_at(state_, at.destination, story.event.seq);
    return story;
  }

  UndeliveredList undelivered(const UndeliveredFilter& filter) override {
    return list_undelivered(log_, state_, filter);
  }

  std::vector<BlockedKeyView> blocked_keys(const std::string& destination, int limit) override {
    return list_blocked_keys(log_, state_, destination, limit);
  }

  std::vector<Finding> examine() override {
    using Level = Finding::Level;
    std::vector<Finding> findings;
    findings.push_back({Level::ok, "database", fmt::format("{} can be read and written", files_->log_path), ""});
    Query mode = log_.query("PRAGMA journal_mode");
    mode.step();
    if (mode.text(0) == "wal") {
      findings.push_back({Level::ok, "journal_mode", "wal", ""});
    } else {
      findings.push_back(
          {Level::warning, "journal_mode",
           fmt::format("{}: the relay's reads and the application's writes wait for each other", mode.text(0)),
           "run 'waybill migrate', which sets it to wal"});
    }
    std::error_code none;
    const auto wal_bytes = std::filesystem::file_size(files_->log_path + "-wal", none);
    if (!none && wal_bytes > 64U * 1024 * 1024)
      findings.push_back({Level::warning, "wal", fmt::format("the write-ahead log has {} MiB", wal_bytes >> 20U),
                          "some reader keeps its transaction open; close it"});
    const std::string stranger = estrangement(*files_, log_, state_);
    if (!stranger.empty()) {
      findings.push_back({Level::problem, "identity", stranger, "run 'waybill anchor'"});
    } else if (is_copy(*files_, state_)) {
      findings.push_back({Level::problem, "identity", "the log is a copy: nothing is published from it",
                          "run 'waybill anchor', then resume the destinations"});
    }
    for (const std::string& name : placed_destinations(state_)) {
      const Place place = *newest_place(state_, name);
      if (!still_there(log_, place))
        findings.push_back({Level::problem, "identity", no_longer_there(*files_, log_, name, place), ""});
    }
    return findings;
  }

 private:
  EventAtDestination at_destination(const std::string& name, const EventView& event) {
    EventAtDestination at{.destination = name, .state = "pending", .settled_at = passed_at(state_, name, event.seq)};
    Query row = state_.query("SELECT standing FROM undelivered WHERE destination = ?1 AND seq = ?2");
    if (row.bind(1, name).bind(2, event.seq).step()) {
      at.state = row.text(0);
    } else if (newest_place(state_, name)->seq >= event.seq) {
      const auto passes = passed_by(state_, name, event.seq);
      const bool sent = std::any_of(passes.begin(), passes.end(),
                                    [&](const AppliedRules& rules) { return matches(rules.match, event); });
      at.state = sent ? "published" : "skipped";
      if (!sent && !passes.empty()) at.skipped_by = passes.back();
    }
    return at;
  }

  Count count_after(std::int64_t seq) {
    Query query = log_.query("SELECT count(*) FROM (SELECT 1 FROM waybill_event WHERE seq > ?1 LIMIT ?2)");
    query.bind(1, seq).bind(2, exact_count_max + 1);
    query.step();
    if (query.integer(0) <= exact_count_max) return {.value = query.integer(0)};
    return {.value = last_seq(log_) - std::max(seq, log_.number("SELECT min(seq) - 1 FROM waybill_event")),
            .exact = false};
  }

  static RelayStatus relay_of(const Query& row, Time now) {
    RelayStatus relay{.id = std::string(row.text(0)), .name = std::string(row.text(1))};
    relay.last_seen = row.time(2).value_or(Time{});
    relay.alive = now - relay.last_seen < std::chrono::milliseconds(row.integer(3));
    const auto names = nlohmann::json::parse(row.text(4), nullptr, false);
    if (names.is_array())
      for (const auto& name : names)
        if (name.is_string()) relay.destinations.push_back(name.get<std::string>());
    const auto troubles = nlohmann::json::parse(row.text(5), nullptr, false);
    if (troubles.is_array())
      for (const auto& each : troubles)
        if (each.is_array() && each.size() == 2 && each[0].is_string() && each[1].is_string())
          relay.troubles.push_back({.destination = each[0].get<std::string>(), .text = each[1].get<std::string>()});
    relay.rules = rules_by_destination(nlohmann::json::parse(row.text(6)));
    if (relay.alive) relay.shards_owned = static_cast<int>(relay.destinations.size());
    return relay;
  }

  ProjectionProgress projection_of(const Query& row, Time now) {
    ProjectionProgress projection{.name = std::string(row.text(0)), .handled = row.integer(1)};
    projection.changed_at = row.time(3).value_or(Time{});
    if (row.null(2)) return projection;  // It is fed with events from elsewhere.
    Query behind = log_.query(
        "SELECT count(*), min(recorded_at) FROM waybill_stream_event WHERE position > ?1 AND position <= ?1 + ?2");
    behind.bind(1, row.integer(2)).bind(2, ProjectionProgress::behind_max);
    if (behind.step()) projection.behind = behind.integer(0);
    if (const auto oldest = behind.time(1))
      projection.lag =
          std::max(std::chrono::floor<std::chrono::milliseconds>(now - *oldest), std::chrono::milliseconds(0));
    return projection;
  }

  DestinationStatus destination_of(const std::string& name, const StoreStatus& status) {
    DestinationStatus destination{.name = name, .paused = is_copy(*files_, state_), .shards = 1};
    const Place place = newest_place(state_, name).value_or(Place{});
    destination.last_settled = place.settled_at;
    destination.pending = count_after(place.seq);
    destination.settled_last_minute = settled_since(state_, name, status.now - std::chrono::minutes(1));
    count_undelivered(state_, destination);
    Query paused = state_.query("SELECT 1 FROM destination WHERE name = ?1 AND paused");
    paused.bind(1, name);
    if (paused.step()) destination.paused = true;
    for (const RelayStatus& relay : status.relays)
      if (relay.alive &&
          std::find(relay.destinations.begin(), relay.destinations.end(), destination.name) != relay.destinations.end())
        destination.shards_owned = 1;
    Query oldest = log_.query("SELECT created_at FROM waybill_event WHERE seq > ?1 ORDER BY seq LIMIT 1");
    oldest.bind(1, place.seq);
    if (oldest.step()) destination.oldest_pending = oldest.time(0);
    return destination;
  }

  SqliteFilesPtr files_;
  Database log_;
  Database state_;
};

}  // namespace

std::unique_ptr<Inspector> sqlite_inspector(const SqliteFilesPtr& files) {
  return std::make_unique<SqliteInspector>(files);
}

}  // namespace waybill
