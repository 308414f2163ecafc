#include <algorithm>

#include <fmt/format.h>

#include "waybill/error.h"

#include "model/numbered_place.h"
#include "store/postgres/database.h"
#include "store/postgres/follower_place.h"
#include "store/postgres/look.h"
#include "store/postgres/snapshot.h"

namespace waybill {
namespace {

constexpr std::uint64_t reach = 200;

class PgFollower final : public Follower {
 public:
  explicit PgFollower(PgDatabasePtr database)
      : database_(std::move(database)),
        queries_(database_->queries),
        connection_(database_->connect("follower", PgRight::read)) {
    const PgQuery query{"shards",
                        filled_in("SELECT shards FROM {schema}.identity", "schema", database_->options.schema)};
    const auto count = connection_.run({&query}).integer(0, 0);
    for (std::int32_t shard = 0; shard < count; ++shard) shards_.push_back(shard);
  }

  Page read(std::string_view text, int events_max) override {
    if (text == "now") return {.place = now().to_string(0)};
    FollowerPlace place = text.empty() ? FollowerPlace{} : FollowerPlace::parse(text);
    place.history = text.empty() ? history() : check(place);
    return place.walking ? walk(place, events_max) : probe(place, events_max);
  }

 private:
  // As of what is read, all that is passed over must be on disk.
  FollowerPlace now() {
    const std::vector<PgStatement> statements{{&queries_.start}, {&queries_.flush}, {&history_}};
    const auto results = connection_.transact(statements);
    return {.history = std::string(results[2].text(0, 0)), .settled = *Snapshot::parse(results[0].text(0, 0))};
  }
  std::string history() { return std::string(connection_.run({&history_}).text(0, 0)); }

  // The history that the place goes on in. Throws Error(fix_input) if it does not: this log has not all that was read
  // before it, or events that follow it are gone.
  std::string check(const FollowerPlace& place) {
    const PgRows rows = connection_.run({&queries_.follow,
                                         {place.history, std::to_string(place.end().xmax), place.settled.to_string(),
                                          place.end().to_string(), std::to_string(place.last)}});
    if (!rows.boolean(0, 1)) throw Error(Remedy::fix_input, std::string(place_of_another_history));
    if (!rows.boolean(0, 2)) throw Error(Remedy::fix_input, std::string(place_was_cleaned));
    return std::string(rows.text(0, 0));
  }

  template <typename Value>
  std::string for_each_shard(const Value& value) const {
    return pg_array(std::vector<std::string>(shards_.size(), value));
  }

  // As a relay: what was seen must be on disk before it goes out.
  Page probe(const FollowerPlace& place, int events_max) {
    std::vector<SeenShard> seen;
    for (const std::int32_t shard : shards_) seen.push_back({.shard = shard, .settled = &place.settled});
    const PgStatement statement = probe_statement(queries_, look_groups(std::move(seen), reach, 0), events_max + 1);
    const PgStatement flush{&queries_.flush};
    const PgRows rows = connection_.transact(std::vector{statement, flush}).at(0);
    const Snapshot present = *Snapshot::parse(rows.text(0, event_columns_count));
    std::vector<EventView> events = events_of(rows, 1);
    if (std::ssize(events) > events_max)
      return walk({.history = place.history,
                   .settled = place.settled,
                   .walking = present,
                   .floor = floor_of(place.settled),
                   .ceiling = rows.integer(0, event_columns_count + 1)},
                  events_max);
    sort_by_seq(events);
    FollowerPlace inside{.history = place.history, .settled = place.settled, .walking = present};
    inside.floor = events.empty() ? 0 : events.front().seq - 1;
    inside.ceiling = events.empty() ? 0 : events.back().seq;
    return page(std::move(events), inside, rows, place.after(present).to_string(0), false);
  }

  std::int64_t floor_of(const Snapshot& settled) {
    if (settled == Snapshot{}) return 0;  // the beginning of the log
    return find_floor(connection_, queries_, settled.xmax);
  }

  // Shards are read side by side; what is certain to be complete is handed out: up to the least last seq
  // among the shards that have more.
  Page walk(const FollowerPlace& place, int events_max) {
    const PgStatement statement{
        &queries_.walk,
        {pg_array<std::int32_t>(shards_), for_each_shard(place.settled.to_string()),
         for_each_shard(place.walking->to_string()), for_each_shard(std::to_string(place.settled.xmax)),
         for_each_shard(std::to_string(place.last)), for_each_shard(std::to_string(place.floor)),
         for_each_shard(std::to_string(place.ceiling)), std::to_string(events_max)}};
    const PgRows rows = connection_.transact(std::span(&statement, 1)).at(0);
    std::vector<EventView> events = events_of(rows, 0);
    std::vector<int> count(shards_.size());
    std::vector<std::int64_t> last(shards_.size());
    for (const EventView& event : events) {
      ++count[static_cast<std::size_t>(event.shard)];
      last[static_cast<std::size_t>(event.shard)] = event.seq;
    }
    std::int64_t complete_to = INT64_MAX;
    for (std::size_t shard = 0; shard < shards_.size(); ++shard)
      if (count[shard] == events_max) complete_to = std::min(complete_to, last[shard]);
    sort_by_seq(events);
    std::erase_if(events, [&](const EventView& event) { return event.seq > complete_to; });
    bool more = complete_to != INT64_MAX;
    if (std::ssize(events) > events_max) {
      events.resize(static_cast<std::size_t>(events_max));
      more = true;
    }
    const std::string after = more ? place.to_string(events.back().seq) : place.after(*place.walking).to_string(0);
    return page(std::move(events), place, rows, after, more);
  }

  static void sort_by_seq(std::vector<EventView>& events) {
    std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.seq < b.seq; });
  }

  Page page(std::vector<EventView> events, const FollowerPlace& window, const PgRows& rows, std::string after,
            bool more) {
    auto memory = std::make_shared<std::vector<std::shared_ptr<PGresult>>>();
    memory->push_back(rows.memory());
    Page page{.memory = memory, .place = std::move(after), .more = more};
    for (EventView& event : events) {
      if (event.payload_deferred) {
        const PgRows payload =
            connection_.run({&queries_.payload, {std::to_string(event.shard), std::to_string(event.seq)}});
        if (payload.size() != 1) continue;
        event.payload = payload.text(0, event.payload_is_json ? 0 : 1);
        event.payload_deferred = false;
        memory->push_back(payload.memory());
      }
      page.items.push_back({.event = event, .place = window.to_string(event.seq)});
    }
    if (!page.items.empty()) page.items.back().place = page.place;
    return page;
  }

  PgDatabasePtr database_;
  const PgQueries& queries_;
  PgConnection connection_;
  const PgQuery history_{"history",
                         filled_in("SELECT history FROM {schema}.identity", "schema", database_->options.schema)};
  std::vector<std::int32_t> shards_;
};

}  // namespace

std::unique_ptr<Follower> postgres_follower(const PgDatabasePtr& database) {
  return std::make_unique<PgFollower>(database);
}

}  // namespace waybill
