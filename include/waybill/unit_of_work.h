#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "waybill/database.h"
#include "waybill/domain_event.h"
#include "waybill/event.h"
#include "waybill/event_store.h"

// One transaction over the state of aggregates, their streams and the outbox: what happened to an aggregate is recorded
// by it, collected here, and written with its state, or not at all.
namespace waybill {

// An aggregate that records what happens to it. A base class for the application's own; anything that is Tracked will
// do.
class AggregateRoot {
 public:
  explicit AggregateRoot(StreamId stream, std::int64_t version = 0) : stream_(std::move(stream)), version_(version) {}

  const StreamId& stream() const { return stream_; }
  // As it is saved.
  std::int64_t version() const { return version_; }
  // What has happened since.
  const std::vector<Event>& new_events() const { return new_events_; }
  // They are saved.
  void committed(std::int64_t version) {
    version_ = version;
    new_events_.clear();
  }

 protected:
  template <DomainEvent E>
  void record(const E& event) {
    new_events_.push_back(to_event(event));
  }

 private:
  StreamId stream_;
  std::int64_t version_;
  std::vector<Event> new_events_;
};

template <typename A>
concept Tracked = requires(A& aggregate, const A& unchanged, std::int64_t version) {
  { unchanged.stream() } -> std::convertible_to<StreamId>;
  { unchanged.version() } -> std::convertible_to<std::int64_t>;
  { unchanged.new_events() } -> std::convertible_to<std::span<const Event>>;
  aggregate.committed(version);
};

// Begins a transaction; rolls it back unless commit() returned.
//
//   UnitOfWork work(db);
//   Order order = Order::place(customer, items);                      // records OrderPlaced
//   work.track(order, [](Connection& db, const Order& order) { … });  // how its state is written
//   work.commit();
class UnitOfWork {
 public:
  struct Options {
    std::string schema = "waybill";
    bool streams = true;  // Events go into the event store, too, which checks versions. False: only into the outbox;
                          // then whoever writes the state checks them.
    TransactionOptions transaction{};
  };
  explicit UnitOfWork(Connection& connection) : UnitOfWork(connection, Options{}) {}
  UnitOfWork(Connection& connection, Options options);

  // For the application's own statements.
  Connection& connection() { return transaction_.connection(); }

  // Borrows the aggregate until commit() has returned: it must not move. Tracking it twice is once. `save(connection,
  // aggregate)` writes its state; it is called by commit() if something has happened to the aggregate, in the order in
  // which they were tracked, and throws Conflict if the state is not what it was.
  template <Tracked A>
  void track(A& aggregate) {
    track(aggregate, [](Connection&, const A&) {});
  }
  template <Tracked A, std::invocable<Connection&, const A&> Save>
  void track(A& aggregate, Save save) {
    enter({.aggregate = std::addressof(aggregate),
           .save = [&aggregate, save = std::move(save)](Connection& db) { save(db, std::as_const(aggregate)); },
           .stream = [&aggregate]() -> StreamId { return std::as_const(aggregate).stream(); },
           .version = [&aggregate]() -> std::int64_t { return std::as_const(aggregate).version(); },
           .new_events = [&aggregate]() -> std::span<const Event> { return std::as_const(aggregate).new_events(); },
           .committed = [&aggregate](std::int64_t version) { aggregate.committed(version); }});
  }

  // An event of no aggregate, or one that is not tracked.
  void add(Event event);

  // States, then streams (versions are checked, then numbers are drawn), then the outbox; all in one transaction. Only
  // when that is committed are the aggregates told. Of whatever nothing has happened to nothing is written. Throws
  // Conflict, having rolled back; and Error(unknown) if it may have been committed: the aggregates are as before.
  void commit();

 private:
  struct Entry {
    const void* aggregate = nullptr;
    std::function<void(Connection&)> save{};
    std::function<StreamId()> stream{};
    std::function<std::int64_t()> version{};
    std::function<std::span<const Event>()> new_events{};
    std::function<void(std::int64_t)> committed{};
  };
  void enter(Entry entry);
  void write();
  std::int64_t write_events(const Entry& entry);

  Options options_;
  EventStore events_;
  Transaction transaction_;
  std::vector<Entry> tracked_;
  std::vector<std::int64_t> versions_;  // of those tracked, as written
  std::vector<Event> added_;
};

// Runs `work` on a unit of work, which it commits. What ended because another was in the way, a Conflict of versions
// too, is begun again, whole, on a new unit: `work` loads its aggregates itself. Returns what `work` returns.
template <std::invocable<UnitOfWork&> Work>
auto with_retries(Connection& connection, const Work& work, const UnitOfWork::Options& options = {},
                  int attempts = RetryOptions{}.attempts) {
  return detail::until_it_goes_through(attempts, [&] {
    UnitOfWork unit(connection, options);
    return work(unit);
  });
}

// An aggregate that is what has happened to it.
template <typename A>
concept EventSourced = Tracked<A> && std::constructible_from<A, StreamId> &&
    requires(A& aggregate, const RecordedEvent& event) {
  aggregate.apply(event);
};
// One that can begin from a snapshot. Snapshots of another `state_version` (none: 1) are passed over.
template <typename A>
concept Snapshotted = EventSourced<A> && requires(A& aggregate, const A& unchanged, const std::string& state) {
  { unchanged.state() } -> std::convertible_to<std::string>;
  aggregate.restore(state);
};

namespace detail {
template <typename A>
constexpr std::int32_t state_version_of() {
  if constexpr (requires { A::state_version; }) {
    return A::state_version;
  } else {
    return 1;
  }
}
}  // namespace detail

// The stream of an event-sourced aggregate, played back, from its snapshot on if it has one. Nothing: there is no such
// stream.
template <EventSourced A>
std::optional<A> load(Connection& connection, const EventStore& events, const StreamId& stream) {
  A aggregate(stream);
  std::int64_t version = 0;
  if constexpr (Snapshotted<A>) {
    const auto snapshot = events.snapshot(connection, stream);
    if (snapshot && snapshot->schema_version == detail::state_version_of<A>()) {
      aggregate.restore(snapshot->state);
      version = snapshot->version;
    }
  }
  constexpr int events_max = 1'000;
  for (bool more = true; more;) {
    const auto page = events.load(connection, stream, version, events_max);
    for (const RecordedEvent& event : page) aggregate.apply(event);
    if (!page.empty()) version = page.back().version;
    more = page.size() == events_max;
  }
  if (version == 0) return std::nullopt;
  aggregate.committed(version);
  return aggregate;
}

// Saves what the aggregate is like now, so that load() need not begin at its first event. REQUIRES: nothing new has
// happened to it.
template <Snapshotted A>
void save_snapshot(Connection& connection, const EventStore& events, const A& aggregate) {
  events.save_snapshot(
      connection, aggregate.stream(),
      {.version = aggregate.version(), .state = aggregate.state(), .schema_version = detail::state_version_of<A>()});
}

}  // namespace waybill
