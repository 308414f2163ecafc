#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "waybill/api.h"
#include "waybill/database.h"
#include "waybill/domain_event.h"
#include "waybill/event.h"
#include "waybill/event_store.h"

// One transaction over the state of aggregates, their streams and the outbox: what happened to an aggregate is recorded
// by it, collected here, and written with its state, or not at all.
namespace WAYBILL_API waybill {

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

// new_events() returns what stays where it is: a reference, or a view.
template <typename A>
concept Tracked = requires(A& aggregate, const A& unchanged, std::int64_t version) {
  { unchanged.stream() } -> std::convertible_to<StreamId>;
  { unchanged.version() } -> std::convertible_to<std::int64_t>;
  { unchanged.new_events() } -> std::convertible_to<std::span<const Event>>;
  requires std::ranges::borrowed_range<decltype(unchanged.new_events())>;
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
  // which they were tracked, and throws Conflict if the state is not what it was. Throws Error(fix_input) if the
  // aggregate is tracked already with a `save` of another type, or with another plain function; of two that have one
  // type, such as std::function, the first is called.
  template <Tracked A>
  void track(A& aggregate) {
    enter(entry_of(aggregate));
  }
  template <Tracked A, std::invocable<Connection&, const A&> Save>
  void track(A& aggregate, Save save) {
    Entry entry = entry_of(aggregate);
    if constexpr (std::is_pointer_v<Save>) entry.function = reinterpret_cast<std::uintptr_t>(save);
    entry.save = [&aggregate, save = std::move(save)](Connection& db) { save(db, std::as_const(aggregate)); };
    enter(std::move(entry));
  }

  // An event of no aggregate, or one that is not tracked. If it names no tenant, it is the transaction's.
  void add(Event event);

  // States, then streams, in the order of their ids (versions are checked, then numbers are drawn), then the outbox;
  // all in one transaction. Only when that is committed are the aggregates told. Of whatever nothing has happened to
  // nothing is written. Throws Conflict, having rolled back; and Error(unknown) if it may have been committed: the
  // aggregates are as before.
  void commit();
  void rollback() noexcept { transaction_.rollback(); }
  // Not committed yet, nor rolled back.
  bool open() const { return transaction_.open(); }

 private:
  struct Entry {
    const void* aggregate = nullptr;
    std::function<void(Connection&)> save{};  // None: it has no state but its stream.
    std::uintptr_t function = 0;              // where `save` is a plain one
    std::function<StreamId()> stream{};
    std::function<std::int64_t()> version{};
    std::function<std::span<const Event>()> new_events{};
    std::function<void(std::int64_t)> committed{};
  };
  template <Tracked A>
  static Entry entry_of(A& aggregate) {
    return {.aggregate = std::addressof(aggregate),
            .stream = [&aggregate]() -> StreamId { return std::as_const(aggregate).stream(); },
            .version = [&aggregate]() -> std::int64_t { return std::as_const(aggregate).version(); },
            .new_events = [&aggregate]() -> std::span<const Event> { return std::as_const(aggregate).new_events(); },
            .committed = [&aggregate](std::int64_t version) { aggregate.committed(version); }};
  }
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

namespace detail {
// What it tracks may be gone when the one who has tracked it has returned: it is too late to commit then.
inline void expect_ended(const UnitOfWork& unit) {
  if (unit.open())
    throw Error(Remedy::fix_input, "with_retries: the unit of work was neither committed nor rolled back; do either");
}
}  // namespace detail

// Runs `work` on a unit of work, which it must commit() or rollback(): if it does neither, Error(fix_input). What ended
// because another was in the way, a Conflict of versions too, is begun again, whole, on a new unit: `work` loads its
// aggregates itself. Returns what `work` returns.
template <std::invocable<UnitOfWork&> Work>
auto with_retries(Connection& connection, const Work& work, const UnitOfWork::Options& options = {},
                  int attempts = RetryOptions{}.attempts) {
  return detail::until_it_goes_through(attempts, [&] {
    UnitOfWork unit(connection, options);
    if constexpr (std::is_void_v<std::invoke_result_t<const Work&, UnitOfWork&>>) {
      work(unit);
      detail::expect_ended(unit);
    } else {
      auto result = work(unit);
      detail::expect_ended(unit);
      return result;
    }
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

// Saves what the aggregate is like now, so that load() need not begin at its first event. Throws Error(fix_input) if
// something has happened to it that is not committed: its version would not tell.
template <Snapshotted A>
void save_snapshot(Connection& connection, const EventStore& events, const A& aggregate) {
  if (!std::ranges::empty(aggregate.new_events()))
    throw Error(Remedy::fix_input, "a snapshot is of what is committed: the aggregate has events that are not");
  events.save_snapshot(
      connection, aggregate.stream(),
      {.version = aggregate.version(), .state = aggregate.state(), .schema_version = detail::state_version_of<A>()});
}

}  // namespace waybill
