#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
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
  void committed(std::int64_t version);

 protected:
  template <DomainEvent E>
  void record(const E& event);

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
    Isolation isolation = Isolation::read_committed;
  };
  explicit UnitOfWork(Connection& connection) : UnitOfWork(connection, Options{}) {}
  UnitOfWork(Connection& connection, Options options);

  // For the application's own statements.
  Connection& connection() { return transaction_.connection(); }

  // Borrows the aggregate until commit() has returned: it must not move. Tracking it twice is once. `save(connection,
  // aggregate)` writes its state; it is called by commit() if something has happened to the aggregate, in the order in
  // which they were tracked, and throws Conflict if the state is not what it was.
  template <Tracked A>
  void track(A& aggregate);
  template <Tracked A, std::invocable<Connection&, const A&> Save>
  void track(A& aggregate, Save save);

  // An event of no aggregate, or one that is not tracked.
  void add(Event event);

  // States, then streams (versions are checked, then numbers are drawn), then the outbox; all in one transaction. Only
  // when that is committed are the aggregates told. If nothing has happened, nothing is written. Throws Conflict; and
  // Error(unknown) if it may have been committed: the aggregates are as before.
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
  void track(Entry entry);

  Options options_;
  Transaction transaction_;
  std::vector<Entry> tracked_;
  std::vector<Event> added_;
};

// The stream of an event-sourced aggregate, played back: `A(StreamId)` and `aggregate.apply(const RecordedEvent&)`;
// with `restore(state)` and `state()` it begins from its snapshot. Nothing: there is no such stream.
template <typename A>
std::optional<A> load(Connection& connection, const EventStore& events, const StreamId& stream);

}  // namespace waybill
