#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/api.h"
#include "waybill/event.h"
#include "waybill/projection_progress.h"
#include "waybill/relay.h"
#include "waybill/sink.h"
#include "waybill/time.h"

// The ports of a store: where events rest. One conformance suite (test/conformance/store_suite.h) holds every
// adapter to what is said here. Every call may throw Error: `retry` if the store is away (make a new object
// then: what was read through a connection lives only as long as it), `fix_config` if a person must mend
// something.
namespace WAYBILL_API waybill {

class Waker;

// One start of a relay.
struct RelayIdentity {
  std::string id{};    // Random for every start: a restarted relay is another one.
  std::string name{};  // For people.
  std::chrono::milliseconds lease{5'000};
  // destination -> its rules: which events it gets. One that is missing gets every event. They are stored with each
  // settlement and shown with the relay, and never change under one id.
  std::map<std::string, Match> rules{};
};

// The right to publish one shard of the log to one destination. The term is greater at every change of hands;
// whoever comes with an old one writes nothing.
struct Lease {
  std::string destination{};
  std::int32_t shard = 0;
  std::int64_t term = 0;

  friend bool operator==(const Lease&, const Lease&) = default;
};

// A stretch of the log that became visible together; an adapter's own affair.
class Window {
 public:
  virtual ~Window() = default;
};

// Events of one shard, following those of the chunk before, in the order in which they must go out.
struct Chunk {
  std::int32_t shard = 0;
  std::shared_ptr<const Window> window{};
  std::vector<EventView> events{};       // May be empty: the shard has been read up to here and nothing was there.
  bool ends_window = false;              // Nothing of this window follows.
  std::size_t bytes = 0;                 // What the events take in memory, about.
  std::shared_ptr<const void> memory{};  // What the events point into.
};

// How an undelivered event stands.
enum class Standing : std::uint8_t {
  retrying,         // is tried again
  blocked,          // waits behind one of its key
  scheduled,        // waits for its not_before
  held,             // waits for a person
  expired,          // its expires_at came first, and no attempt at it can have arrived
  expired_unknown,  // its expires_at came first; an attempt at it may have arrived
  dead,             // given up; a person may redrive it
  dismissed,        // a person has decided that it need not go
};
std::string_view to_string(Standing standing);
// Is it tried by itself, some time?
bool waits(Standing standing);
// May a person redrive, edit or dismiss it? Held, dead, or expired in either way.
bool rests(Standing standing);

// An event that the cursor has passed although it was not delivered: a row of the table `undelivered`, under the number
// of its event.
struct Undelivered {
  // Is an attempt under way? Said before it begins, so that whoever comes after a crash knows of it.
  // on_trial: with nothing else of this relay and destination, and if the relay dies, that counts against the event.
  enum class Sending : std::uint8_t { no, yes, on_trial };

  std::int64_t seq = 0;
  std::uint64_t key = 0;  // key_hash(); 0: it waits for nobody, and nobody for it.
  Standing standing = Standing::retrying;
  bool blocks = false;  // Events of its key wait behind it.
  std::int32_t attempts = 0;
  std::int32_t crashes = 0;  // Attempts in a row that their relays did not survive; all but the first went alone.
  std::int32_t blamed = 0;   // Of these, those that count against the event.
  Sending sending = Sending::no;
  std::chrono::milliseconds wait{};  // Until it may be tried, from when it is written or read.
  std::string error{};
  bool in_doubt = false;       // An attempt at it may have arrived: its answer was `unknown`, or was never saved.
  bool ignore_expiry = false;  // A person has redriven it after it had expired: it goes all the same. Read only.
};

// What came of one attempt at an event that has failed before, or now.
struct Attempt {
  std::int64_t seq = 0;
  std::int32_t number = 0;  // The first is 1.
  Time at{};
  Outcome::Kind outcome = Outcome::Kind::delivered;
  std::string error{};
};

// "Everything of this shard up to here is settled", and what has become of undelivered events.
struct Settlement {
  std::int32_t shard = 0;
  std::int64_t term = 0;
  std::shared_ptr<const Window> window{};  // of the last settled chunk; none: the cursor stays
  std::int64_t seq = 0;                    // of the last settled event of that window
  bool window_done = false;                // Every event of the window is settled.
  std::int64_t count = 0;                  // Events settled since the last settlement.

  std::vector<Undelivered> undelivered{};    // Rows as they are from now on: new ones, or in place of the old.
  std::vector<std::int64_t> delivered{};     // Rows that end.
  std::vector<std::uint64_t> buried_keys{};  // All rows of these keys that block are dead from now on.
  std::vector<Attempt> attempts{};           // For the record.
};

// What a relay is ready to read.
struct Appetite {
  std::vector<std::int32_t> shards{};  // None: read nothing.
  int events_max = 0;                  // per shard
  std::size_t bytes_max = 0;           // in all, about
};

struct Reading {
  std::vector<Chunk> chunks{};       // At most one per shard; none: nothing was there and nothing has moved.
  std::vector<std::int32_t> lost{};  // Shards whose lease another relay has by now; nothing was written for them.
};

// A key with undelivered events that block it.
struct BlockedKey {
  std::uint64_t key = 0;
  std::int64_t events = 0;
  std::optional<std::chrono::milliseconds> wait{};  // Until the first of them may be tried; none: not by itself.
};

// A shard as it was found at its beginning.
struct Opened {
  Lease lease{};
  std::vector<BlockedKey> blocked{};
  std::optional<std::chrono::milliseconds> next_due{};  // Of those without a key: until the first may be tried.
  std::int32_t crashes = 0;  // How many relays in a row have died here without getting anywhere.
  // Events that were written until then may have been sent before, though they are not settled: an owner ended without
  // giving the lease back, a connection of its own broke, or the destination was rewound. None: nothing of the kind.
  std::optional<Time> in_doubt_until{};
};

// Undelivered events asked for, of one key in the order of seq; or, if `key` is 0, those without a key that are due.
struct Wanted {
  std::int32_t shard = 0;
  std::uint64_t key = 0;
  std::int64_t after = 0;  // seq
  int events_max = 0;
};

struct Fetched {
  struct Item {
    Undelivered row{};
    EventView event{};
    bool missing = false;  // The event is nowhere in the store: `event` has only its seq, shard and id.
  };
  std::vector<Item> items{};
  std::map<std::int32_t, std::chrono::milliseconds>
      next_due{};  // Shards with more events without a key: until the first is due.
  std::shared_ptr<const void> memory{};
};

// One destination's way to the log. Used by one thread.
// What exchange() returned is safe to publish: it was committed, and a crash of the store will not undo it.
class Session {
 public:
  virtual ~Session() = default;

  // Begins with these leases, where their last settlement left off; a destination never seen before at `start`.
  // Returns those that still hold, as they are now, and what is undelivered there; the others are not begun.
  // `again`: they were open before, through a connection that broke. Whatever that one has left unfinished is over and
  // done with when this returns; the terms may have been raised for it.
  // REQUIRES: the leases were won before this call, so that what is read here is the last word of their former owner.
  virtual std::vector<Opened> open(std::span<const Lease> leases, Start start, bool again) = 0;

  // Forgets shards without writing anything.
  virtual void close(std::span<const std::int32_t> shards) = 0;

  // Saves `settled`, then reads on, in one transaction.
  virtual Reading exchange(std::span<const Settlement> settled, const Appetite& appetite) = 0;

  // Undelivered events of shards that are open.
  virtual Fetched fetch(std::span<const Wanted> wanted) = 0;

  // To be called now and then while nothing is exchanged, so that nothing lies open in the store meanwhile.
  virtual void keep_up() {}

  // The payload of an event that came without it, being large (EventView::payload_deferred). If the event is nowhere in
  // the store any more, it returns nothing and the payload stays deferred.
  virtual std::shared_ptr<const void> load(EventView& event) = 0;

  // The store's clock now: as it was last read through this session, and counted on since. `not_before` and
  // `expires_at` are compared with it, never with the relay's own clock. Until open() has returned it may be the
  // machine's.
  virtual Time now() const = 0;

  // Gives leases back, settled to the last event: another relay may take them at once.
  virtual void release(std::span<const Lease> leases) = 0;
};

// What a heartbeat brings back.
struct Pulse {
  std::vector<Lease> mine{};
  std::vector<Lease> free{};            // To be had now, of the destinations served; with the term they have.
  std::map<std::string, int> shards{};  // destination -> how many there are
  std::map<std::string, int> relays{};  // destination -> relays alive that serve it and do not leave, this one included
  std::chrono::milliseconds next_expiry{};        // Until the next relay would be given up; the lease if there is none.
  std::map<std::string, std::int64_t> changes{};  // destination -> higher whenever a person has changed something there
  std::set<std::string> paused{};                 // destinations to which nothing is to be published now
};

// What a relay has found to be wrong with a destination, for people.
struct Trouble {
  std::string destination{};
  std::string text{};  // Without secrets or payloads; at most trouble_bytes_max.

  friend bool operator==(const Trouble&, const Trouble&) = default;
};
inline constexpr std::size_t trouble_bytes_max = 500;

// A relay's life among other relays. Used by one thread.
class Membership {
 public:
  virtual ~Membership() = default;

  // Says "I am alive, and serve these destinations" for another lease from now. A relay that is `leaving` keeps the
  // leases it still has, and is told of them, but others no longer count it among those that serve a destination
  // (Pulse::relays): what it gives back is theirs at once.
  virtual Pulse beat(std::span<const std::string> destinations, bool leaving = false) = 0;

  // From the next beat() on these troubles, and no others, are shown with this relay (RelayStatus::troubles).
  virtual void report(std::span<const Trouble> troubles) = 0;

  // Takes free leases; returns those won, with their new term.
  virtual std::vector<Lease> take(std::span<const Lease> free) = 0;

  // Has anything been committed since the last poll()? The first may say so of what was there before.
  virtual bool poll() = 0;

  // Asks to be told of news from now on. If `told`, poll() once more before waiting: what was committed before the call
  // is not told. Otherwise go on polling: the store cannot tell `now`, or `never` does through this connection.
  enum class Sleep { not_now, never, told };
  virtual Sleep sleep() = 0;
  // No need to tell any more.
  virtual void rise() = 0;

  // Waits for something to be told, for `waker`, or for `deadline`.
  enum class Told { nothing, news, leases };  // leases: some have become free.
  virtual Told wait(Waker& waker, Steady deadline) = 0;

  // Is gone: other relays need not wait for the lease to run out.
  virtual void leave() = 0;
};

// Reads the log without a lease, for those who keep their own place. Used by one thread.
class Follower {
 public:
  virtual ~Follower() = default;

  struct Item {
    EventView event{};
    std::string place{};  // Resuming here brings everything after this event; some of it maybe again.
  };
  struct Page {
    std::vector<Item> items{};
    std::shared_ptr<const void> memory{};
    std::string place{};  // After the page, also if it is empty.
    bool more = false;
  };

  // Events come with their payloads; a page without `more` leaves out nothing that was committed before the call.
  // What follows `place`; empty: the whole log; "now": nothing yet, but the place to go on from.
  // Error(fix_input) if `place` is none, or the log does not reach back to it any more.
  virtual Page read(std::string_view place, int events_max) = 0;
};

// Writes events in a transaction of its own. Destroyed without commit(), it has written nothing.
class Writer {
 public:
  virtual ~Writer() = default;
  // Returns the events' ids; for an event whose dedup key was used before, that of the first.
  virtual std::vector<EventId> enqueue(std::span<const Event> events) = 0;
  virtual void commit() = 0;
};

// A count that is exact up to a limit, since people rarely need more and exactness costs.
struct Count {
  std::int64_t value = 0;
  bool exact = true;
};

struct DestinationStatus {
  std::string name{};
  bool paused = false;
  std::map<Standing, Count> undelivered{};
  Count blocked_keys{};
  std::int32_t attempts_most = 0;  // At one event that is tried again.
  Count pending{};
  std::optional<Time> oldest_pending{};  // When the oldest of them was written.
  std::optional<Time> last_settled{};
  std::int64_t settled_last_minute = 0;
  int shards = 0;
  int shards_owned = 0;  // By relays that are alive.
};

struct RelayStatus {
  std::string id{};
  std::string name{};
  bool alive = false;
  Time last_seen{};
  std::vector<std::string> destinations{};
  std::vector<Trouble> troubles{};
  std::map<std::string, Match> rules{};  // As in RelayIdentity.
  int shards_owned = 0;
};

struct StoreStatus {
  std::string store{};  // "postgresql", "sqlite", "memory"
  std::string where{};  // Without secrets.
  int schema_version = 0;
  Time now{};
  Count events{};
  std::vector<DestinationStatus> destinations{};
  std::vector<RelayStatus> relays{};
  std::vector<ProjectionProgress> projections{};
};

struct EventFilter {
  std::string topic{}, type{}, tenant{}, aggregate_type{}, aggregate_id{}, key{};  // Patterns with '*'; empty: any.
  std::optional<Time> since{}, until{};                                            // by created_at
  std::optional<std::int64_t> before_seq{};                                        // The page before.
  int limit = 50;
  bool payloads = false;  // Large ones too; else they may be deferred.
  bool states = false;    // Also how each event stands at each destination.
};

// Rules that relays applied to a destination.
struct AppliedRules {
  Match match{};
  Time since{};  // When a relay first came with them, after one with other rules.

  friend bool operator==(const AppliedRules&, const AppliedRules&) = default;
};

struct EventAtDestination {
  std::string destination{};
  // "pending", "published", "skipped", or a Standing. Skipped: the cursor has passed it, and the rules of the relay
  // that moved the cursor did not send it; or the destination began after it (Start::now). An event that was passed
  // more than once, since the destination was rewound, is skipped if it was sent none of these times.
  std::string state{};
  std::optional<Time> settled_at{};
  std::optional<AppliedRules> skipped_by{};  // The last rules that skipped it; none: the destination began after it.
  std::vector<Attempt> attempts{};           // Oldest first; an event that went through at once has none.
};

struct EventList {
  std::vector<EventView> events{};  // Newest first.
  std::shared_ptr<const void> memory{};
  std::vector<std::vector<EventAtDestination>> states{};  // Of each event, without attempts; empty unless asked for.
};

struct EventStory {
  EventView event{};
  std::shared_ptr<const void> memory{};
  std::vector<EventAtDestination> destinations{};
};

// Which undelivered events: all that is set must hold.
struct UndeliveredFilter {
  std::string destination{};          // None: all; where something is changed it must be set.
  std::vector<Standing> standings{};  // None: any.
  std::vector<EventId> ids{};         // None: any.
  std::string topic{}, type{}, tenant{}, aggregate_type{}, aggregate_id{}, key{}, error{};  // As in EventFilter.
  std::optional<Time> since{}, until{};                                                     // by when it came here
  std::optional<std::int64_t> before_seq{};                                                 // The page before.
  int limit = 50;
  bool payloads = false;  // As in EventFilter.
};

// In place of what the event says, from its next attempt on. The original is kept.
struct Edit {
  std::optional<std::string> payload{};  // Of the kind the event has: JSON, or any bytes.
  std::optional<std::string> headers{};  // A JSON object.

  bool empty() const { return !payload && !headers; }
};

struct UndeliveredView {
  std::string destination{};
  Undelivered row{};
  EventView event{};          // As it was written,
  Edit edit{};                // and what it is sent with instead.
  Time since{};               // When it came here; of one that is dead, held or expired, since when it is.
  std::optional<Time> due{};  // When it is tried next.
  std::int32_t redrives = 0;
};

struct UndeliveredList {
  std::vector<UndeliveredView> events{};  // Newest first.
  std::shared_ptr<const void> memory{};
};

struct BlockedKeyView {
  std::string destination{};
  std::string tenant{}, key{};
  Count events{};
  EventId first{};  // What blocks it,
  Standing standing = Standing::retrying;
  std::string error{};  // and why.
  Time since{};
  std::optional<Time> due{};
};

// Something doctor has to say.
struct Finding {
  enum class Level { ok, note, warning, problem };
  Level level = Level::ok;
  std::string what{};    // "wal_level", "privileges", …
  std::string text{};    // What was found.
  std::string remedy{};  // The way out; empty if none is needed.
};

// Answers questions about the log. Used by one thread. Changes nothing.
class Inspector {
 public:
  virtual ~Inspector() = default;
  virtual StoreStatus status() = 0;
  virtual EventList list(const EventFilter& filter) = 0;
  virtual std::optional<EventStory> find(const EventId& id) = 0;
  virtual UndeliveredList undelivered(const UndeliveredFilter& filter) = 0;
  virtual std::vector<BlockedKeyView> blocked_keys(const std::string& destination, int limit) = 0;
  virtual std::vector<Finding> examine() = 0;
};

// What a person does, for the record. Repeated under the same id, an operation goes on where it stopped and touches
// nothing twice: it is about what was dead or held when it was begun, and nothing that has died since.
struct Operation {
  EventId id{};
  std::string by{};
};

// Where a destination is to go on: with the first event committed at or after a time, with an event, or with the first.
struct RewindTo {
  std::optional<Time> time{};
  std::optional<EventId> event{};
};

struct OperationView {
  EventId id{};
  std::string kind{};  // "redrive", "dismiss", "edit", "pause", "resume", "rewind", "forget"
  std::string by{};
  std::string destination{};
  std::string details{};
  std::int64_t events = 0;
  Time at{};
};

// Changes what is undelivered, and where destinations are. Used by one thread. Safe beside running relays and other
// operators: each call is one transaction, and relays notice.
class Operator {
 public:
  virtual ~Operator() = default;

  // How many events the filter has, as it stands.
  virtual std::int64_t count(const UndeliveredFilter& filter) = 0;

  // Dead and held events of the filter, `most` of them at most, are tried again from now on, as if for the first time.
  // Returns how many; 0: the operation is complete. What somebody else is writing is left for last, and then waited
  // for. Expired events are included only if the filter names their standing or their ids; they are then delivered
  // although they have expired.
  virtual std::int64_t redrive(const Operation& operation, const UndeliveredFilter& filter, int most) = 0;
  // Dead and held events of the filter need not go; expired ones as with redrive(). Returns as redrive().
  virtual std::int64_t dismiss(const Operation& operation, const UndeliveredFilter& filter, int most) = 0;
  // Error(fix_input) if the event is neither dead, held nor expired there.
  virtual void edit(const Operation& operation, const std::string& destination, const EventId& id,
                    const Edit& edit) = 0;

  virtual void pause(const Operation& operation, const std::string& destination, bool paused) = 0;
  // Returns how many events will be published again, about; none, if it has not come to that place yet. They go as if
  // for the first time: none of them is undelivered any more. `dry`: only that count.
  virtual Count rewind(const Operation& operation, const std::string& destination, const RewindTo& to, bool dry) = 0;
  // A destination that no configuration names any more holds the log back no longer. Error(fix_input) while a relay
  // serves it. Returns how many events it would still have been sent.
  virtual Count forget(const Operation& operation, const std::string& destination, bool dry) = 0;

  virtual std::vector<OperationView> history(int limit) = 0;
};

struct SchemaState {
  int version = 0;         // 0: nothing there yet.
  int newest_known = 0;    // to this program
  int oldest_program = 0;  // The schema asks for a program that knows at least this version.
  bool readable = true;    // False: there are tables, but this user may not read their version; the rest is unknown.
};

// Makes and changes the store's tables. Used by one thread; two may run at once, one waits.
class Schema {
 public:
  virtual ~Schema() = default;
  virtual SchemaState state() = 0;
  // The SQL that migrate() would run on an empty store; for those who review or run it themselves.
  virtual std::string print() const = 0;
  // Brings the schema up to newest_known; returns the versions it applied, none if it was there already.
  virtual std::vector<int> migrate() = 0;
};

struct CleanOptions {
  std::chrono::seconds events_older_than{std::chrono::hours(24) * 7};
  std::chrono::seconds dead_older_than{std::chrono::hours(24) * 90};
  std::chrono::seconds dedup_older_than{std::chrono::hours(24) * 7};
  std::chrono::seconds inbox_older_than{std::chrono::hours(24) * 90};  // As long as anything may be sent again.
  std::string archive_to{};  // A folder that gets each event, as JSON lines, before it goes; none: no archive.
  bool dry = false;
  std::stop_token stop{};  // Once it is stopped, clean() ends with the batch it is at; nothing is left half done.
};

struct Cleaned {
  Count events{};
  Count dead{};
  Count dedup{};
  Count inbox{};                         // Messages that are no longer known to have been handled.
  Count idempotency{};                   // Answers that have expired.
  std::vector<std::string> held_back{};  // Who keeps events that are old enough to go, in words.
  bool more = false;                     // There is more to be cleaned; call again.

  std::int64_t removed() const { return events.value + dead.value + dedup.value + inbox.value + idempotency.value; }
};

struct Anchored {
  bool needed = false;
  std::string found{};  // What is different about this store, in words.
  Count to_be_sent{};   // Events that no destination is known to have got.
};

// Keeps the store in order. Used by one thread; several relays may call at once, one does it.
class Upkeep {
 public:
  virtual ~Upkeep() = default;
  // Removes what is old, delivered everywhere and undelivered nowhere; a bounded part of it at each call.
  virtual Cleaned clean(const CleanOptions& options) = 0;
  // After a restore, a copy, an upgrade: makes this store one that relays trust, without losing an event. Destinations
  // are paused. `dry`: only says what would be done.
  virtual Anchored anchor(const Operation& operation, bool dry) = 0;
};

// Where events rest. Thread-safe; what it returns is used by one thread each.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::unique_ptr<Schema> schema() = 0;
  virtual std::unique_ptr<Writer> writer() = 0;
  virtual std::unique_ptr<Inspector> inspector() = 0;
  virtual std::unique_ptr<Membership> join(const RelayIdentity& relay) = 0;
  virtual std::unique_ptr<Session> connect(const RelayIdentity& relay, const std::string& destination) = 0;
  virtual std::unique_ptr<Follower> follow() = 0;
  virtual std::unique_ptr<Operator> operate() = 0;
  virtual std::unique_ptr<Upkeep> upkeep() = 0;
  // For messages: what and where, without secrets.
  virtual std::string describe() const = 0;
};

}  // namespace waybill
