#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/waker.h"
#include "model/rules_json.h"
#include "model/trouble_list.h"
#include "store/postgres/database.h"
#include "store/postgres/snapshot.h"

namespace waybill {
namespace {

// Transactions at most so old are found by one walk; see Snapshot::base.
constexpr std::uint64_t reach = 200;

// How long a relay that sleeps may be silent before the server ends its session, if its lease is not longer.
constexpr std::chrono::milliseconds silence_max{15'000};

// How long a look at the log may wait for a lock, if a tenth of the lease is not shorter: the next heartbeat waits as
// long.
constexpr std::chrono::milliseconds lock_wait_max{500};
// How long a take may wait for the former owner's last transaction.
constexpr std::chrono::milliseconds take_wait_max{5'000};
const PgQuery lock_timeout{"lock_timeout", "SELECT set_config('lock_timeout', $1, true)"};

// A relay's heartbeat, leases and sleep. The session holds the wake lock while the relay sleeps, so that a
// producer that cannot have a share of it knows that it must notify.
class PgMembership final : public Membership {
 public:
  PgMembership(PgDatabasePtr database, RelayIdentity relay)
      : database_(std::move(database)),
        queries_(database_->queries),
        relay_(std::move(relay)),
        connection_(database_->connect("keeper", PgRight::relay)) {
    seen_ = current();
    const PgQuery setting{"prepared", "SELECT current_setting('max_prepared_transactions')::integer"};
    // NOTIFY would break an application's PREPARE TRANSACTION, and a pooler's session is not ours to sleep
    // in.
    can_sleep_ = !connection_.pooled() && connection_.run({&setting}).integer(0, 0) == 0;
    if (connection_.pooled()) {
      database_->log.info("there is a pooler in between: the relay polls instead of being told of news");
      return;
    }
    if (!can_sleep_)
      database_->log.info("max_prepared_transactions is not 0: the relay polls instead of being told of news");
    connection_.script(filled_in("LISTEN {schema}_news; LISTEN {schema}_leases", "schema", database_->options.schema));
    connection_.script(fmt::format("SET lock_timeout = {}", lock_wait().count()));
    // A relay that is stopped in its sleep lets go of the lock; one that is alive says something within its lease.
    if (connection_.server_version() >= 140000)
      connection_.script(fmt::format("SET idle_session_timeout = {}", std::max(relay_.lease, silence_max).count()));
  }

  Pulse beat(std::span<const std::string> destinations, bool leaving) override {
    const PgStatement statement{&queries_.beat,
                                {relay_.id, relay_.name, std::to_string(relay_.lease.count()), pg_array(destinations),
                                 troubles_, rules_, leaving ? "t" : "f"}};
    Pulse pulse = read(connection_.run(statement));
    if (pulse.shards.size() < destinations.size()) {
      connection_.run({&queries_.enroll, {pg_array(destinations)}});
      pulse = read(connection_.run(statement));
    }
    return pulse;
  }

  // With the next heartbeat, in its statement.
  void report(std::span<const Trouble> troubles) override { troubles_ = trouble_list(troubles); }

  std::vector<Lease> take(std::span<const Lease> free) override {
    std::vector<std::string> destinations;
    std::vector<std::int32_t> shards;
    std::vector<std::int64_t> terms;
    for (const Lease& lease : free) {
      destinations.push_back(lease.destination);
      shards.push_back(lease.shard);
      terms.push_back(lease.term);
    }
    const std::vector<PgStatement> statements{
        {&lock_timeout, {std::to_string(take_wait_max.count())}},
        {&queries_.take,
         {relay_.id, pg_array(destinations), pg_array<std::int32_t>(shards), pg_array<std::int64_t>(terms)}}};
    const PgRows rows = connection_.run(statements).at(1);
    std::vector<Lease> won;
    for (int row = 0; row < rows.size(); ++row)
      won.push_back({.destination = std::string(rows.text(row, 0)),
                     .shard = static_cast<std::int32_t>(rows.integer(row, 1)),
                     .term = rows.integer(row, 2)});
    return won;
  }

  // Somebody may have the log locked: then nothing new can be read either, and the heart must beat on. What was
  // committed is found by a later look.
  bool poll() override {
    std::vector<PgStatement> look;
    if (connection_.pooled()) look.push_back({&lock_timeout, {std::to_string(lock_wait().count())}});
    look.push_back({&queries_.news, {seen_.to_string(), std::to_string(seen_.base(reach))}});
    std::optional<PgRows> rows;
    try {
      rows = connection_.run(look).back();
    } catch (const Error& error) {
      if (error.remedy() != Remedy::retry || !connection_.alive()) throw;
      if (!std::exchange(locked_out_, true))
        database_->log.warning("the log cannot be read now; will try again", {{"error", error.what()}});
      return false;
    }
    locked_out_ = false;
    saw(rows->text(0, 1));
    return rows->boolean(0, 0);
  }

  // Tries for the lock, never waits for it: a request that waits behind one long transaction would make all
  // other producers fail to get their share, and notify.
  Sleep sleep() override {
    if (!can_sleep_) return Sleep::never;
    locked_ = connection_.run({&queries_.sleep}).boolean(0, 0);
    // If not even a share is to be had, another relay sleeps, and all producers notify already.
    asleep_ = locked_ || !connection_.run({&queries_.awake}).boolean(0, 0);
    return asleep_ ? Sleep::told : Sleep::not_now;
  }

  void rise() override {
    asleep_ = false;
    if (std::exchange(locked_, false)) connection_.run({&queries_.rise});
  }

  // Notifications are also those of other relays' sleep, and of everybody who can connect to the database: one who is
  // awake polls anyway, and is told nothing.
  Told wait(Waker& waker, Steady deadline) override {
    auto channels = connection_.notifications();
    if (channels.empty()) {
      waker.wait(deadline, connection_.socket());
      channels = connection_.notifications();
    }
    const auto told = [&](std::string_view suffix) {
      return std::any_of(channels.begin(), channels.end(),
                         [&](const std::string& name) { return name.ends_with(suffix); });
    };
    if (told("_leases")) return Told::leases;
    return asleep_ && told("_news") ? Told::news : Told::nothing;
  }

  void leave() override {
    rise();
    connection_.run({&queries_.leave, {relay_.id}});
  }

 private:
  std::chrono::milliseconds lock_wait() const { return std::min(lock_wait_max, relay_.lease / 10); }

  Snapshot current() {
    const auto snapshot = Snapshot::parse(connection_.run({&queries_.start}).text(0, 0));
    return snapshot.value_or(Snapshot{});
  }

  // The log of a server that is behind what was seen would look as if nothing had happened.
  void saw(std::string_view text) {
    auto snapshot = Snapshot::parse(text);
    if (!snapshot) return;
    if (snapshot->xmax < seen_.xmax)
      throw Error(Remedy::retry, "postgresql: the server is another one, or was set back to an earlier time");
    seen_ = std::move(*snapshot);
  }

  Pulse read(const PgRows& rows) {
    Pulse pulse{.next_expiry = relay_.lease};
    for (int row = 0; row < rows.size(); ++row) {
      const std::string_view kind = rows.text(row, 0);
      if (kind == "lease") {
        const Lease lease{.destination = std::string(rows.text(row, 1)),
                          .shard = static_cast<std::int32_t>(rows.integer(row, 2)),
                          .term = rows.integer(row, 3)};
        (rows.boolean(row, 4) ? pulse.mine : pulse.free).push_back(lease);
      } else if (kind == "destination") {
        const std::string name(rows.text(row, 1));
        pulse.shards[name] = static_cast<int>(rows.integer(row, 2));
        pulse.relays[name] = static_cast<int>(rows.integer(row, 3)) + 1;
        if (rows.boolean(row, 4)) pulse.paused.insert(name);
        pulse.changes[name] = rows.integer(row, 5);
      } else if (!rows.null(row, 3)) {
        pulse.next_expiry = std::min(pulse.next_expiry, std::chrono::milliseconds(rows.integer(row, 3)));
      }
    }
    return pulse;
  }

  PgDatabasePtr database_;
  const PgQueries& queries_;
  const RelayIdentity relay_;
  PgConnection connection_;
  Snapshot seen_;
  std::string troubles_ = "[]";
  const std::string rules_ = rules_json(relay_.rules);
  bool can_sleep_ = false;
  bool asleep_ = false;      // We have asked to be told of news.
  bool locked_ = false;      // We hold the wake lock.
  bool locked_out_ = false;  // The last look at the log failed.
};

}  // namespace

std::unique_ptr<Membership> postgres_membership(const PgDatabasePtr& database, const RelayIdentity& relay) {
  return std::make_unique<PgMembership>(database, relay);
}

}  // namespace waybill
