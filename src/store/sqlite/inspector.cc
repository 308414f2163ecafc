#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "waybill/error.h"

#include "base/time_text.h"
#include "store/sqlite/event_rows.h"
#include "store/sqlite/files.h"

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
    Query relay = state_.query("SELECT id, name, last_seen, lease_ms, destinations FROM relay");
    if (relay.step()) status.relays.push_back(relay_of(relay, status.now));
    relay.reset();
    Query cursors = state_.query("SELECT destination, max(seq), max(settled_at) FROM cursor GROUP BY destination");
    while (cursors.step()) status.destinations.push_back(destination_of(cursors, status));
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
    return {.events = std::move(rows.events), .memory = rows.memory()};
  }

  std::optional<EventStory> find(const EventId& id) override {
    Query query = log_.query(fmt::format("SELECT {} FROM waybill_event WHERE lower(id) = ?1 LIMIT 1", event_columns()));
    query.bind(1, id.to_string());
    if (!query.step()) return std::nullopt;
    EventRows rows;
    rows.add(query);
    EventStory story{.event = rows.events.at(0), .memory = rows.memory()};
    Query settled = state_.query(
        "SELECT d.destination, (SELECT c.settled_at FROM cursor c WHERE c.destination = d.destination AND "
        "c.seq >= ?1 "
        "ORDER BY c.seq LIMIT 1) FROM (SELECT DISTINCT destination FROM cursor) d ORDER BY 1");
    settled.bind(1, story.event.seq);
    while (settled.step())
      story.destinations.push_back({.destination = std::string(settled.text(0)),
                                    .state = settled.null(1) ? "pending" : "published",
                                    .settled_at = settled.time(1)});
    return story;
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
    return findings;
  }

 private:
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
    if (relay.alive) relay.shards_owned = static_cast<int>(relay.destinations.size());
    return relay;
  }

  DestinationStatus destination_of(const Query& row, const StoreStatus& status) {
    DestinationStatus destination{.name = std::string(row.text(0)), .shards = 1};
    const std::int64_t settled = row.integer(1);
    destination.last_settled = row.time(2);
    destination.pending = count_after(settled);
    for (const RelayStatus& relay : status.relays)
      if (relay.alive &&
          std::find(relay.destinations.begin(), relay.destinations.end(), destination.name) != relay.destinations.end())
        destination.shards_owned = 1;
    Query oldest = log_.query("SELECT created_at FROM waybill_event WHERE seq > ?1 ORDER BY seq LIMIT 1");
    oldest.bind(1, settled);
    if (oldest.step()) destination.oldest_pending = oldest.time(0);
    Query recent =
        state_.query("SELECT coalesce(sum(count), 0) FROM cursor WHERE destination = ?1 AND settled_at >= ?2");
    recent.bind(1, destination.name).bind(2, to_rfc3339(status.now - std::chrono::minutes(1)));
    recent.step();
    destination.settled_last_minute = recent.integer(0);
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
