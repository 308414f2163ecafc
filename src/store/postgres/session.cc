#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/assert.h"
#include "store/postgres/database.h"
#include "store/postgres/look.h"
#include "store/postgres/rules.h"
#include "store/postgres/server_clock.h"
#include "store/postgres/snapshot.h"
#include "store/postgres/undelivered.h"

namespace waybill {
namespace {

// What one walk may pass of what it has seen already, in events; see Snapshot::base.
constexpr double rows_passed_max = 2'000;
// A probe brings at most so many events of a group of lanes. What it brings of larger windows is read again.
constexpr int probed_max = 1'000;
// A lane that is further behind, in events of all lanes, is not probed, which would pass all of those, but walked.
constexpr double behind_max = 50'000;

// The events between two snapshots: visible in `walking`, not in `settled`.
struct PgWindow final : Window {
  Snapshot settled;
  Snapshot walking;
  // See Snapshot::base. Must not change during a walk, but may become settled.xmax: then all that became
  // visible of transactions open at `settled` is looked up one by one, which is right wherever the walk
  // stands.
  std::uint64_t base = 0;
  // All its events lie above the floor, up to the ceiling, but for what old transactions wrote.
  std::int64_t floor = 0;
  std::int64_t ceiling = 0;
};

// Where the reading of one shard is.
struct Place {
  std::int64_t term = 0;
  Snapshot settled{};  // Everything visible here has been read.
  // The window being walked through; none: the next read probes for one.
  std::shared_ptr<const PgWindow> walk{};
  std::int64_t last = 0;  // of the walk
};

// The rows of a chunk of a walk. They become events when they are handed out, while the server reads the next chunk.
struct Walked {
  PgRows rows;
  int first = 0;
  int count = 0;
  std::shared_ptr<const PgWindow> window{};
  bool ends_window = false;
};

// Reads windows and saves cursors for one destination (design: "an insert-only log read by snapshot
// windows"). A small window is read by one probe, whose transaction also saves what was settled; its commit
// is synchronous, and only after it has returned are the events handed out. A large one is walked through in
// chunks, the next one being read ahead while the relay publishes.
class PgSession final : public Session {
 public:
  PgSession(PgDatabasePtr database, const RelayIdentity& relay, std::string destination)
      : database_(std::move(database)),
        queries_(database_->queries),
        relay_(relay),
        destination_(std::move(destination)),
        connection_(database_->connect("relay " + destination_, PgRight::relay)) {}

  std::vector<Opened> open(std::span<const Lease> leases, Start start, bool again) override;
  void close(std::span<const std::int32_t> shards) override;
  Reading exchange(std::span<const Settlement> settled, const Appetite& appetite) override;
  Fetched fetch(std::span<const Wanted> wanted) override;
  // A chunk that nobody takes in keeps its transaction open on the server, and with it the xmin horizon.
  void keep_up() override { finish_read_ahead(); }
  std::shared_ptr<const void> load(EventView& event) override;
  void release(std::span<const Lease> leases) override;
  Time now() const override { return clock_.now(); }

 private:
  struct Limits {  // in events
    int lane = 0;
    int group = 0;
  };
  struct Row {  // of the cursor table
    std::vector<std::int32_t> shards{};
    std::string settled{};
    std::optional<std::string> walking{};
    std::optional<std::int64_t> upto{};
    std::int64_t floor = 0;
    std::int64_t ceiling = 0;
    std::int64_t count = 0;
  };

  Place place_of(const PgRows& rows, int row, const Snapshot& present) const;
  PgParameters lease_parameters(std::span<const Lease> leases) const;
  void finish_read_ahead();
  void read_ahead(const Appetite& appetite);
  void settle_and_probe(std::span<const Settlement> settled, std::vector<std::int32_t> probing, int limit,
                        Reading& reading);
  std::vector<Row> rows_of(std::span<const Settlement> settled) const;
  PgStatement settle_statement(const std::vector<Row>& rows, std::optional<int> rules,
                               std::span<const Settlement> also = {}) const;
  PgStatement fence_statement(const Lease& lease) const;
  std::vector<LookGroup> groups_of(std::span<const std::int32_t> shards) const;
  PgStatement walk_statement(std::span<const std::int32_t> shards, int limit) const;
  void take_probed(const PgRows& rows, std::span<const std::int32_t> shards, std::span<const LookGroup> groups,
                   Limits limits, Reading& reading);
  void take_window(std::int32_t shard, std::vector<EventView> events, const Snapshot& present, const PgRows& rows,
                   Reading& reading);
  void begin_walks(std::span<const std::int32_t> shards, const Snapshot& walking, std::int64_t ceiling);
  void take_walked(const PgRows& rows, std::span<const std::int32_t> shards, int limit);
  std::vector<Walked> take_ready(std::span<const std::int32_t> shards, Reading& reading);
  void hand_out(const Walked& walked, Reading& reading);
  void write_first_cursor(std::span<const std::int32_t> shards, Start start);
  int limit_of(const Appetite& appetite) const;
  std::uint64_t reach() const;
  void learn(std::size_t events, std::size_t bytes);
  void learn_transactions(std::size_t events, std::uint64_t transactions);

  PgDatabasePtr database_;
  const PgQueries& queries_;
  const RelayIdentity relay_;
  const std::string destination_;
  PgConnection connection_;
  std::optional<int> rules_;  // by which events are passed; none before the first open()
  std::map<std::int32_t, Place> places_;
  std::map<std::int32_t, Walked> ready_;  // not handed out yet
  std::vector<std::int32_t> ahead_;       // shards whose next chunk is on its way
  int ahead_limit_ = 0;
  ServerClock clock_;
  Floors floors_;
  std::uint64_t newest_ = 0;  // xmax at the last look
  double bytes_per_event_ = 1'000;
  double events_per_transaction_ = 1;
};

std::vector<std::int32_t> shards_with(const std::map<std::int32_t, Place>& places, std::span<const std::int32_t> among,
                                      bool walking) {
  std::vector<std::int32_t> shards;
  for (const std::int32_t shard : among)
    if ((places.at(shard).walk != nullptr) == walking) shards.push_back(shard);
  return shards;
}

bool contains_shard(const PgRows& rows, std::int32_t shard) {
  for (int row = 0; row < rows.size(); ++row)
    if (rows.integer(row, 0) == shard) return true;
  return false;
}

Snapshot snapshot_of(std::string_view text) {
  auto snapshot = Snapshot::parse(text);
  WAYBILL_ASSERT(snapshot);
  return *snapshot;
}

// --- Beginning and ending

// A broken connection of ours may live on at the server, in the middle of a commit. To raise the term waits for it, as
// a take-over by another relay would; what is read in a later statement is then the last word.
std::vector<Opened> PgSession::open(std::span<const Lease> leases, Start start, bool again) {
  finish_read_ahead();
  if (leases.empty()) return {};
  if (!rules_) rules_ = note_rules(connection_, queries_, relay_, destination_);
  if (again) {
    const PgStatement statement{&queries_.renew, lease_parameters(leases)};
    const PgRows rows = connection_.transact(std::span(&statement, 1)).at(0);
    std::vector<Lease> renewed;
    for (int row = 0; row < rows.size(); ++row)
      renewed.push_back({.destination = destination_,
                         .shard = static_cast<std::int32_t>(rows.integer(row, 0)),
                         .term = rows.integer(row, 1)});
    return open(renewed, start, false);
  }
  const PgStatement newest{&queries_.open, lease_parameters(leases)};
  const PgStatement now{&queries_.start};
  const PgStatement blocked{&queries_.blocked, lease_parameters(leases)};
  for (int attempt = 0;; ++attempt) {
    const auto results = clock_.transact(
        connection_, std::vector{newest, now, blocked, fence_statement(leases.front())}, {.statement = 1, .column = 2});
    const PgRows& rows = results[0];
    const Snapshot present = snapshot_of(results[1].text(0, 0));
    newest_ = std::max(newest_, present.xmax);
    if (results[3].size() > 0) floors_.read(results[1].integer(0, 1));
    std::vector<Opened> opened;
    std::vector<std::int32_t> fresh;
    for (int row = 0; row < rows.size(); ++row) {
      const auto shard = static_cast<std::int32_t>(rows.integer(row, 0));
      if (rows.null(row, 1)) {
        fresh.push_back(shard);
      } else {
        places_[shard] = place_of(rows, row, present);
      }
      opened.push_back({.lease = *std::find_if(leases.begin(), leases.end(),
                                               [&](const auto& lease) { return lease.shard == shard; })});
      places_[shard].term = opened.back().lease.term;
    }
    read_blocked(results[2], opened);
    if (fresh.empty()) return opened;
    WAYBILL_ASSERT(attempt < 3);
    write_first_cursor(fresh, start);
    close(fresh);
  }
}

// A cursor's row as the place where reading goes on.
Place PgSession::place_of(const PgRows& rows, int row, const Snapshot& present) const {
  Place place{.settled = snapshot_of(rows.text(row, 1))};
  std::uint64_t end = place.settled.xmax;
  if (!rows.null(row, 2)) {
    auto window = std::make_shared<PgWindow>();
    window->settled = place.settled;
    window->walking = snapshot_of(rows.text(row, 2));
    window->base = place.settled.xmax;
    window->floor = rows.integer(row, 4);
    window->ceiling = rows.integer(row, 5);
    end = window->walking.xmax;
    place.walk = window;
    place.last = rows.integer(row, 3);
  }
  if (end > present.xmax)
    throw Error(Remedy::fix_config,
                fmt::format("postgresql: destination '{}' has settled transactions that this server has not seen yet "
                            "(restored to an earlier time?). Nothing is sent; 'waybill anchor --dry-run' shows how to "
                            "go on",
                            destination_));
  return place;
}

PgParameters PgSession::lease_parameters(std::span<const Lease> leases) const {
  std::vector<std::int32_t> shards;
  std::vector<std::int64_t> terms;
  for (const Lease& lease : leases) {
    shards.push_back(lease.shard);
    terms.push_back(lease.term);
  }
  return {destination_, relay_.id, pg_array<std::int32_t>(shards), pg_array<std::int64_t>(terms)};
}

// The snapshot is taken in a transaction of its own: one that has written counts itself as visible.
void PgSession::write_first_cursor(std::span<const std::int32_t> shards, Start start) {
  Snapshot settled;
  if (start == Start::now) settled = snapshot_of(connection_.run({&queries_.start}).text(0, 0));
  const std::vector rows{Row{.shards = {shards.begin(), shards.end()}, .settled = settled.to_string()}};
  connection_.transact(std::vector{settle_statement(rows, std::nullopt)});
}

void PgSession::close(std::span<const std::int32_t> shards) {
  for (const std::int32_t shard : shards) {
    places_.erase(shard);
    ready_.erase(shard);
  }
}

void PgSession::release(std::span<const Lease> leases) {
  finish_read_ahead();
  connection_.run({&queries_.release, lease_parameters(leases)});
}

// --- Settle and claim

Reading PgSession::exchange(std::span<const Settlement> settled, const Appetite& appetite) {
  finish_read_ahead();
  std::vector<std::int32_t> probing = shards_with(places_, appetite.shards, false);
  std::erase_if(probing, [&](std::int32_t shard) { return ready_.contains(shard); });
  Reading reading;
  settle_and_probe(settled, std::move(probing), limit_of(appetite), reading);
  const std::vector<Walked> walked = take_ready(appetite.shards, reading);
  read_ahead(appetite);
  for (const Walked& chunk : walked) hand_out(chunk, reading);
  std::erase_if(reading.chunks, [&](const Chunk& chunk) {
    return std::find(reading.lost.begin(), reading.lost.end(), chunk.shard) != reading.lost.end();
  });
  return reading;
}

// The probe comes first: so the transaction gets its number after the probe's snapshot was taken, and once it is on
// disk no crash can make the server hand out a number again that the snapshot takes for ended. The snapshot then stays
// good even where a crash goes unnoticed, behind a pooler.
// If the transaction locked no lease it has written nothing, its commit has not reached the disk, and what it saw may
// yet be undone: then once more, under a lease that is ours.
void PgSession::settle_and_probe(std::span<const Settlement> settled, std::vector<std::int32_t> probing, int limit,
                                 Reading& reading) {
  while (!settled.empty() || !probing.empty()) {
    std::vector<PgStatement> statements;
    const std::vector<LookGroup> groups = groups_of(probing);
    const int probed = static_cast<int>(std::min<std::size_t>(limit * probing.size(), probed_max));
    if (!probing.empty()) statements.push_back(probe_statement(queries_, groups, probed + 1));
    const std::size_t fence = statements.size();
    statements.push_back(settled.empty()
                             ? fence_statement({.shard = probing.front(), .term = places_.at(probing.front()).term})
                             : settle_statement(rows_of(settled), rules_, settled));
    for (PgStatement& statement : undelivered_statements(queries_, destination_, relay_.id, settled))
      statements.push_back(std::move(statement));
    const auto results = clock_.transact(connection_, statements, {.statement = fence, .column = 1});
    const PgRows& fenced = results[fence];
    if (settled.empty() && fenced.size() == 0) reading.lost.push_back(probing.front());
    for (const Settlement& settlement : settled)
      if (!contains_shard(fenced, settlement.shard)) reading.lost.push_back(settlement.shard);
    std::erase_if(probing, [&](std::int32_t shard) {
      return std::find(reading.lost.begin(), reading.lost.end(), shard) != reading.lost.end();
    });
    if (fenced.size() > 0) {
      if (!probing.empty()) take_probed(results.front(), probing, groups, {.lane = limit, .group = probed}, reading);
      return;
    }
    settled = {};
  }
}

// One row for all shards that have come to the same place: when nothing much goes on, that is all of them.
std::vector<PgSession::Row> PgSession::rows_of(std::span<const Settlement> settled) const {
  std::vector<Row> rows;
  for (const Settlement& settlement : settled) {
    if (!settlement.window) continue;
    const auto& window = static_cast<const PgWindow&>(*settlement.window);
    Row row{.shards = {settlement.shard}, .count = settlement.count};
    if (settlement.window_done) {
      row.settled = window.walking.to_string();
    } else {
      row.settled = window.settled.to_string();
      row.walking = window.walking.to_string();
      row.upto = settlement.seq;
      row.floor = window.floor;
      row.ceiling = window.ceiling;
    }
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& other) {
      return !row.walking && !other.walking && other.settled == row.settled;
    });
    if (same == rows.end()) {
      rows.push_back(std::move(row));
    } else {
      same->shards.push_back(settlement.shard);
      same->count += settlement.count;
    }
  }
  return rows;
}

// The shards of `also` whose cursor stays are locked all the same.
PgStatement PgSession::settle_statement(const std::vector<Row>& rows, std::optional<int> rules,
                                        std::span<const Settlement> also) const {
  std::vector<std::int32_t> shards;
  std::vector<std::int64_t> terms;
  std::vector<std::size_t> row_of_shard;
  std::vector<std::string> settled;
  std::vector<std::optional<std::string>> walking;
  std::vector<std::optional<std::string>> upto;
  std::vector<std::int64_t> floors;
  std::vector<std::int64_t> ceilings;
  std::vector<std::int64_t> counts;
  for (const Row& row : rows) {
    settled.push_back(row.settled);
    walking.push_back(row.walking);
    upto.push_back(row.upto ? std::optional(std::to_string(*row.upto)) : std::nullopt);
    floors.push_back(row.floor);
    ceilings.push_back(row.ceiling);
    counts.push_back(row.count);
    for (const std::int32_t shard : row.shards) {
      shards.push_back(shard);
      terms.push_back(places_.at(shard).term);
      row_of_shard.push_back(settled.size());
    }
  }
  for (const Settlement& settlement : also) {
    if (settlement.window) continue;
    shards.push_back(settlement.shard);
    terms.push_back(places_.at(settlement.shard).term);
    row_of_shard.push_back(0);
  }
  return {&queries_.settle,
          {destination_, relay_.id, pg_array<std::int32_t>(shards), pg_array<std::int64_t>(terms),
           pg_array<std::size_t>(row_of_shard), pg_array(settled), pg_array(walking), pg_array(upto),
           pg_array<std::int64_t>(floors), pg_array<std::int64_t>(ceilings), pg_array<std::int64_t>(counts),
           rules ? std::optional(std::to_string(*rules)) : std::nullopt}};
}

PgStatement PgSession::fence_statement(const Lease& lease) const {
  return {&queries_.fence, {destination_, relay_.id, std::to_string(lease.shard), std::to_string(lease.term)}};
}

// Those that are near enough to the present to be probed.
std::vector<LookGroup> PgSession::groups_of(std::span<const std::int32_t> shards) const {
  const auto behind = static_cast<std::uint64_t>(behind_max / std::max(events_per_transaction_, 0.05));
  std::vector<SeenShard> seen;
  for (const std::int32_t shard : shards) seen.push_back({.shard = shard, .settled = &places_.at(shard).settled});
  return look_groups(std::move(seen), reach(), newest_ - std::min(newest_, behind));
}

// A window of at most `limits.lane` events is complete: in the order of seq it is the lane's next chunk. A larger one
// is walked through; so are those of all lanes of a group of which not everything was brought.
void PgSession::take_probed(const PgRows& rows, std::span<const std::int32_t> shards, std::span<const LookGroup> groups,
                            Limits limits, Reading& reading) {
  const Snapshot present = snapshot_of(rows.text(0, event_columns_count));
  const std::int64_t last_seq = rows.integer(0, event_columns_count + 1);
  if (present.xmax < newest_)
    throw Error(Remedy::retry,
                fmt::format("postgresql: the server is at transaction {}, and was at {} before: it is another one, or "
                            "was set back to an earlier time",
                            present.xmax, newest_));
  std::map<std::int32_t, std::vector<EventView>> found;
  for (EventView& event : events_of(rows, 1)) found[event.shard].push_back(event);
  std::set<std::int32_t> large(shards.begin(), shards.end());
  for (const LookGroup& group : groups) {
    std::size_t events = 0;
    for (const SeenShard& seen : group.shards) events += found[seen.shard].size();
    if (std::cmp_greater(events, limits.group)) continue;
    learn_transactions(events, present.xmax - std::min(group.base, present.xmax));
    for (const auto& [shard, settled] : group.shards) {
      if (!large.contains(shard) || std::cmp_greater(found[shard].size(), limits.lane)) continue;
      large.erase(shard);
      take_window(shard, std::move(found[shard]), present, rows, reading);
    }
  }
  if (!large.empty()) begin_walks(std::vector(large.begin(), large.end()), present, last_seq);
  floors_.looked(present, last_seq);
  newest_ = present.xmax;
}

void PgSession::take_window(std::int32_t shard, std::vector<EventView> events, const Snapshot& present,
                            const PgRows& rows, Reading& reading) {
  Place& place = places_.at(shard);
  if (events.empty() && place.settled == present) return;
  std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.seq < b.seq; });
  auto window = std::make_shared<PgWindow>();
  window->settled = place.settled;
  window->walking = present;
  window->floor = events.empty() ? 0 : events.front().seq - 1;
  window->ceiling = events.empty() ? 0 : events.back().seq;
  Chunk chunk{.shard = shard, .window = window, .ends_window = true, .memory = rows.memory()};
  for (const EventView& event : events) chunk.bytes += bytes_of(event);
  learn(events.size(), chunk.bytes);
  chunk.events = std::move(events);
  reading.chunks.push_back(std::move(chunk));
  place.settled = present;
}

void PgSession::begin_walks(std::span<const std::int32_t> shards, const Snapshot& walking, std::int64_t ceiling) {
  std::uint64_t oldest_unknown = UINT64_MAX;
  for (const std::int32_t shard : shards)
    if (const std::uint64_t base = places_.at(shard).settled.base(reach()); !floors_.find(base))
      oldest_unknown = std::min(oldest_unknown, base);
  std::int64_t floor = 0;  // of those that are not known
  if (oldest_unknown != UINT64_MAX) floor = find_floor(connection_, queries_, oldest_unknown);
  for (const std::int32_t shard : shards) {
    Place& place = places_.at(shard);
    auto window = std::make_shared<PgWindow>();
    window->settled = place.settled;
    window->walking = walking;
    window->base = place.settled.base(reach());
    window->floor = floors_.find(window->base).value_or(floor);
    window->ceiling = ceiling;
    place.walk = window;
    place.last = 0;
  }
}

PgStatement PgSession::walk_statement(std::span<const std::int32_t> shards, int limit) const {
  std::vector<std::string> settled;
  std::vector<std::string> walking;
  std::vector<std::uint64_t> bases;
  std::vector<std::int64_t> last;
  std::vector<std::int64_t> floors;
  std::vector<std::int64_t> ceilings;
  for (const std::int32_t shard : shards) {
    const Place& place = places_.at(shard);
    settled.push_back(place.walk->settled.to_string());
    walking.push_back(place.walk->walking.to_string());
    bases.push_back(place.walk->base);
    last.push_back(place.last);
    floors.push_back(place.walk->floor);
    ceilings.push_back(place.walk->ceiling);
  }
  return {&queries_.walk,
          {pg_array<std::int32_t>(shards), pg_array(settled), pg_array(walking), pg_array<std::uint64_t>(bases),
           pg_array<std::int64_t>(last), pg_array<std::int64_t>(floors), pg_array<std::int64_t>(ceilings),
           std::to_string(limit)}};
}

// The rows come lane by lane.
void PgSession::take_walked(const PgRows& rows, std::span<const std::int32_t> shards, int limit) {
  int next = 0;
  for (const std::int32_t shard : shards) {
    const int first = next;
    while (next < rows.size() && rows.integer(next, 1) == shard) ++next;
    const auto where = places_.find(shard);
    if (where == places_.end()) continue;  // closed meanwhile
    Place& place = where->second;
    Walked chunk{.rows = rows, .first = first, .count = next - first, .window = place.walk};
    chunk.ends_window = chunk.count < limit;
    if (chunk.count > 0) place.last = rows.integer(next - 1, 0);
    if (chunk.ends_window) {
      place.settled = place.walk->walking;
      place.walk.reset();
    }
    // A walk that ends with nothing has nothing to say: the probe that follows, in the same exchange, goes on from
    // its end. Handed out, it would look as if the shard had been read up to now.
    if (chunk.count > 0) ready_.insert_or_assign(shard, std::move(chunk));
  }
  WAYBILL_ASSERT(next == rows.size());
}

// Chunks of walks that were read ahead. Where one is still to be read, an empty one says so.
std::vector<Walked> PgSession::take_ready(std::span<const std::int32_t> shards, Reading& reading) {
  std::vector<Walked> taken;
  for (const std::int32_t shard : shards) {
    const auto chunk = ready_.find(shard);
    if (chunk != ready_.end()) {
      taken.push_back(std::move(chunk->second));
      ready_.erase(chunk);
    } else if (const Place& place = places_.at(shard); place.walk) {
      reading.chunks.push_back({.shard = shard, .window = place.walk, .ends_window = false});  // more to come
    }
  }
  return taken;
}

void PgSession::hand_out(const Walked& walked, Reading& reading) {
  Chunk chunk{.shard = static_cast<std::int32_t>(walked.rows.integer(walked.first, 1)),
              .window = walked.window,
              .events = events_of(walked.rows, walked.first, walked.count),
              .ends_window = walked.ends_window,
              .memory = walked.rows.memory()};
  for (const EventView& event : chunk.events) chunk.bytes += bytes_of(event);
  learn(chunk.events.size(), chunk.bytes);
  reading.chunks.push_back(std::move(chunk));
}

// --- Reading ahead

void PgSession::read_ahead(const Appetite& appetite) {
  ahead_ = shards_with(places_, appetite.shards, true);
  std::erase_if(ahead_, [&](std::int32_t shard) { return ready_.contains(shard); });
  if (ahead_.empty()) return;
  ahead_limit_ = limit_of(appetite);
  const PgStatement statement = walk_statement(ahead_, ahead_limit_);
  connection_.send(std::span(&statement, 1));
}

void PgSession::finish_read_ahead() {
  if (ahead_.empty()) return;
  const std::vector<std::int32_t> shards = std::exchange(ahead_, {});
  const auto results = connection_.receive();
  take_walked(results.at(0), shards, ahead_limit_);
}

Fetched PgSession::fetch(std::span<const Wanted> wanted) {
  if (wanted.empty()) return {};
  finish_read_ahead();
  return read_fetched(connection_.transact(fetch_statements(queries_, destination_, wanted)), wanted);
}

std::shared_ptr<const void> PgSession::load(EventView& event) {
  finish_read_ahead();
  const PgRows rows = connection_.run({&queries_.payload, {std::to_string(event.shard), std::to_string(event.seq)}});
  if (rows.size() != 1) return {};
  event.payload = rows.text(0, event.payload_is_json ? 0 : 1);
  event.payload_deferred = false;
  return rows.memory();
}

// --- Sizes

int PgSession::limit_of(const Appetite& appetite) const {
  if (appetite.shards.empty()) return 0;
  const double each = static_cast<double>(appetite.bytes_max) / static_cast<double>(appetite.shards.size());
  return static_cast<int>(std::clamp(each / bytes_per_event_, 1.0, static_cast<double>(appetite.events_max)));
}

std::uint64_t PgSession::reach() const {
  return static_cast<std::uint64_t>(std::clamp(rows_passed_max / events_per_transaction_, 16.0, 1'000.0));
}

void PgSession::learn(std::size_t events, std::size_t bytes) {
  if (events == 0) return;
  const double mean = static_cast<double>(bytes) / static_cast<double>(events);
  // Up at once, down slowly: a limit that is too small costs little, one that is too large costs memory.
  bytes_per_event_ = mean > bytes_per_event_ ? mean : bytes_per_event_ * 0.9 + mean * 0.1;
}

void PgSession::learn_transactions(std::size_t events, std::uint64_t transactions) {
  if (events == 0 || transactions == 0) return;
  events_per_transaction_ =
      events_per_transaction_ * 0.9 + 0.1 * static_cast<double>(events) / static_cast<double>(transactions);
}

}  // namespace

std::unique_ptr<Session> postgres_session(const PgDatabasePtr& database, const RelayIdentity& relay,
                                          const std::string& destination) {
  return std::make_unique<PgSession>(database, relay, destination);
}

}  // namespace waybill
