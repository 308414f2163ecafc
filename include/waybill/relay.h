#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "waybill/api.h"
#include "waybill/log.h"
#include "waybill/sink.h"
#include "waybill/time.h"

namespace WAYBILL_API waybill {

class Store;  // waybill/store.h; made by postgres_store(), sqlite_store()

// When and how often an event that failed is tried again. The wait before attempt n+1 is random between 0 and
// first_delay * 2^(n-1), at most max_delay ("full jitter").
struct RetryPolicy {
  int attempts = 12;  // The first included; 0: any number. An event may bring its own number.
  std::chrono::milliseconds first_delay{1'000};
  std::chrono::milliseconds max_delay{600'000};
};

// Which events a destination gets. Each list is of patterns in which '*' stands for any text, also none; one
// of them must match. An empty list matches everything.
struct Match {
  std::vector<std::string> topic{};
  std::vector<std::string> type{};
  std::vector<std::string> tenant{};
  std::vector<std::string> aggregate_type{};

  friend bool operator==(const Match&, const Match&) = default;
};

// Where a destination that the store has never seen begins.
enum class Start { beginning, now };

// What becomes of a key when one of its events is given up.
enum class OnDead {
  go_on,     // The next of the key goes.
  block,     // The key waits for a person.
  bury_key,  // What waits behind it is given up, too.
};

// What becomes of an event that may have arrived or not.
enum class OnUnknown {
  resend,  // It is sent again: at least once.
  hold,    // It waits for a person: at most once. Every attempt is then recorded before it begins.
};

struct DestinationOptions {
  std::string name{};  // ^[a-z][a-z0-9_-]{0,62}$; its progress is kept under it.
  Match match{};
  Start start = Start::beginning;
  RetryPolicy retry{};
  OnDead on_dead = OnDead::go_on;
  OnUnknown on_unknown = OnUnknown::resend;
  // How many events may wait behind failed ones of their key, of one key and in all of one shard. At a limit the
  // shard stands still.
  std::int64_t blocked_per_key_max = 500'000;
  std::int64_t blocked_max = 1'000'000;
};

struct RelayOptions {
  std::string name{};  // Shown to operators; empty: host and process number.

  // Events read at once. Larger: fewer round trips, more memory, more duplicates after a crash.
  int batch = 1'000;
  // Read ahead of the destination, at most: bytes of payload, headers and metadata.
  std::size_t read_ahead_bytes_max = std::size_t{32} * 1024 * 1024;
  // Progress is saved at most this often. Larger: fewer writes, more duplicates after a crash.
  std::chrono::milliseconds settle_interval{50};
  // Longest time between two polls for news: while nobody tells of them; and while applications do, or, where they
  // never do (behind a pooler), after the log has been still for ten times as long.
  std::chrono::milliseconds poll_busy{100};
  std::chrono::milliseconds poll_idle{2'000};
  // How long a relay may be silent before another takes its work over.
  std::chrono::milliseconds lease{5'000};
  // How long a stop waits for what is under way.
  std::chrono::milliseconds grace{30'000};

  void validate() const;  // Throws Error(fix_config) that names the value and its range.
};

// How often something took how long.
struct Latency {
  struct Bucket {
    std::chrono::microseconds upto{};  // and longer than the bucket before
    std::uint64_t count = 0;
  };
  std::vector<Bucket> buckets{};
  std::uint64_t count = 0;  // Also of what took longer than the last bucket.
  std::chrono::microseconds sum{};
};

// A destination is away, or seems to be: nothing goes there until the next try, and no event is blamed.
struct BreakerState {
  bool open = false;
  std::string reason{};            // For people. Empty unless open.
  std::optional<Time> next_try{};  // None unless open.
};

// What a relay has done for a destination since it was made.
struct RelayCounts {
  std::uint64_t delivered = 0;
  std::uint64_t repeated = 0;   // Of these, what the destination says it had already.
  std::uint64_t skipped = 0;    // Matched by no rule of the destination.
  std::uint64_t unmatched = 0;  // By no rule of any of the relay's destinations; counted for one.
  std::uint64_t failed = 0;     // Attempts that did not deliver,
  std::map<Outcome::Kind, std::uint64_t> failed_with{};  // and what they came to instead.
  std::uint64_t dead = 0;                                // Events given up; not those buried with their key.
  std::uint64_t expired = 0;                             // Events not delivered in time,
  std::uint64_t expired_unknown = 0;  // and those of which nobody knows whether an attempt at them arrived.
  Latency latency{};  // From when an event was written, or was not to go before, until it was delivered.

  // And how it stands now.
  std::chrono::microseconds lag{};  // What the last delivery has added to the latency.
  std::size_t leases = 0;
  BreakerState breaker{};
  std::optional<Time> trusted_until{};  // As the sink's.
};

// How a relay is, as its own threads see it.
struct RelayHealth {
  bool running = false;
  bool store_up = false;                   // The store has answered the last heartbeat.
  std::chrono::milliseconds since_beat{};  // Since the last one that was answered, or since the start.
  std::chrono::milliseconds since_turn{};  // Since the keeper last looked around.
  std::chrono::milliseconds lease{};

  // Do its threads turn? Also while the store is away; false means that only a restart helps.
  bool alive() const;
};

// A Relay moves events from a store to sinks: claim, publish, settle; at least once, in order per key.
// run(), step() and drain() are one thread's affair, and may be called again after they have returned; hint(),
// report(), counts(), health() and run()'s stop token are anybody's, and wait for nobody. `store` and `clock` must
// outlive it.
class Relay {
 public:
  Relay(Store& store, RelayOptions options, Log log = {}, const Clock& clock = system_clock());
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // REQUIRES: not running yet; no other destination of that name.
  void add(DestinationOptions destination, std::unique_ptr<Sink> sink);

  // Works until `stop`, then lets what is under way finish (RelayOptions::grace), settles it and hands over:
  // another relay goes on at once and nothing is sent twice. Survives what is not its own fault (a store or a
  // destination that is away) by trying again; throws Error(fix_config) for what only a person can mend.
  void run(std::stop_token stop);

  // Works until everything that was committed when it was called is delivered, or waits in the store for a later
  // attempt, a time or a person (a paused destination is one of these cases); or until `stop`.
  void drain(std::stop_token stop);

  // One turn on the caller's thread, without waiting: for loops of your own and for tests. Returns how many
  // events it read, submitted, collected or settled; 0 means there was nothing to do.
  std::size_t step();

  // There may be news: an application that enqueues in this process need not wait for the next poll.
  void hint() noexcept;

  // What else is wrong with the process that it runs in, for people: shown with this relay from its next heartbeat on
  // (RelayStatus::troubles, of no destination). Empty: nothing.
  void report(std::string trouble);

  RelayCounts counts(const std::string& destination) const;
  RelayHealth health() const;

 private:
  class WAYBILL_HIDDEN Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace waybill
