#include <nlohmann/json.hpp>

#include "waybill/enqueue.h"
#include "waybill/unit_of_work.h"

#include "service/databases.h"

namespace waybill {
namespace {

using nlohmann::json;

struct Placed {
  static constexpr std::string_view type_name = "order.placed";
  int amount = 0;
  std::string to_json() const { return json({{"amount", amount}}).dump(); }
  static Placed from_json(std::string_view text) { return {json::parse(text).at("amount")}; }
};
struct Raised {
  static constexpr std::string_view type_name = "order.raised";
  int by = 0;
  std::string to_json() const { return json({{"by", by}}).dump(); }
  static Raised from_json(std::string_view text) { return {json::parse(text).at("by")}; }
};

class Order : public AggregateRoot {
 public:
  explicit Order(StreamId stream) : AggregateRoot(std::move(stream)) {}
  static Order place(const std::string& id, int amount) {
    Order order({.type = "order", .id = id});
    order.amount_ = amount;
    order.record(Placed{amount});
    return order;
  }
  // Nothing happens if it stays the same.
  void raise(int by) {
    if (by == 0) return;
    amount_ += by;
    record(Raised{by});
  }
  int amount() const { return amount_; }

  void apply(const RecordedEvent& event) { handlers().handle(event, *this); }
  std::string state() const { return std::to_string(amount_); }
  void restore(const std::string& state) { amount_ = std::stoi(state); }

 private:
  static const EventHandlers<Order&>& handlers() {
    static const auto all = [] {
      EventHandlers<Order&> made;
      made.on<Placed>([](const Placed& placed, const RecordedEvent&, Order& order) { order.amount_ = placed.amount; });
      made.on<Raised>([](const Raised& raised, const RecordedEvent&, Order& order) { order.amount_ += raised.by; });
      return made;
    }();
    return all;
  }

  int amount_ = 0;
};
static_assert(Snapshotted<Order>);

// What it returns is gone before it is read.
class ByValue : public AggregateRoot {
 public:
  std::vector<Event> new_events() const { return AggregateRoot::new_events(); }
};
class AsSpan : public AggregateRoot {
 public:
  std::span<const Event> new_events() const { return AggregateRoot::new_events(); }
};
static_assert(Tracked<Order> && Tracked<AsSpan> && !Tracked<ByValue>);

class UnitOfWorkSuite : public DatabaseTest {
 protected:
  UnitOfWorkSuite() { db->script("CREATE TABLE orders (id text PRIMARY KEY, amount integer, version bigint)"); }

  static void save(Connection& line, const Order& order) {
    line.run(
        "INSERT INTO orders VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET amount = excluded.amount, "
        "version = excluded.version",
        order.stream().id, order.amount(), order.version() + std::ssize(order.new_events()));
  }
  static StreamId id_of(const std::string& id) { return {.type = "order", .id = id}; }

  void place(const std::string& id, int amount) {
    UnitOfWork work(*db);
    Order order = Order::place(id, amount);
    work.track(order, save);
    work.commit();
  }
  // How many rows there are of state, stream and outbox.
  std::string rows() {
    return std::to_string(count("orders")) + ' ' + std::to_string(count(table("stream_event"))) + ' ' +
           std::to_string(count(table("event")));
  }

  EventStore events;
};

INSTANTIATE_TEST_SUITE_P(Databases, UnitOfWorkSuite, every_database, database_name);

TEST_P(UnitOfWorkSuite, StateStreamAndOutboxAreWrittenTogether) {
  UnitOfWork work(*db);
  Order order = Order::place("o-7", 10);
  order.raise(5);
  work.track(order, save);
  work.track(order, save);  // twice is once
  EXPECT_EQ(2U, order.new_events().size());
  EXPECT_EQ(0, order.version());
  work.commit();
  EXPECT_TRUE(order.new_events().empty());
  EXPECT_EQ(2, order.version());
  EXPECT_FALSE(db->in_transaction());
  EXPECT_EQ("1 2 2", rows());
  EXPECT_EQ("15", value("SELECT amount FROM orders"));
  EXPECT_EQ("order.raised", value("SELECT type FROM " + table("event") + " WHERE version = 2"));
}

TEST_P(UnitOfWorkSuite, WhoeverKnowsHowToSaveItIsHeard) {
  UnitOfWork work(*db);
  Order order = Order::place("o-7", 10);
  work.track(order);
  work.track(order, save);
  work.track(order);
  EXPECT_THROW(work.track(order, [](Connection&, const Order&) {}), Error) << "there is one already, and not the same";
  void (*another)(Connection&, const Order&) = [](Connection&, const Order&) {};
  EXPECT_THROW(work.track(order, another), Error);
  work.commit();
  EXPECT_EQ("1 1 1", rows());
}

// So units that have them in common do not wait for each other in a circle.
TEST_P(UnitOfWorkSuite, StreamsAreWrittenInTheOrderOfTheirIds) {
  UnitOfWork work(*db);
  std::vector<Order> orders;
  for (const char* id : {"c", "a", "b"}) orders.push_back(Order::place(id, 1));
  for (Order& order : orders) work.track(order, save);
  orders[2].raise(7);
  work.commit();
  std::string order;
  const Rows written = db->run("SELECT aggregate_id FROM " + table("stream_event") + " ORDER BY position");
  for (std::size_t row = 0; row < written.size(); ++row) order += written.text(row, 0);
  EXPECT_EQ("abbc", order);
  EXPECT_EQ(1, orders[0].version());
  EXPECT_EQ(2, orders[2].version());
}

TEST_P(UnitOfWorkSuite, WithoutCommitNothingIs) {
  Order order = Order::place("o-7", 10);
  {
    UnitOfWork work(*db);
    work.track(order, save);
    work.connection().run("INSERT INTO orders (id) VALUES ('mine')");
  }
  EXPECT_EQ("0 0 0", rows());
  EXPECT_EQ(1U, order.new_events().size()) << "it has still happened";
}

TEST_P(UnitOfWorkSuite, NoChangeNoEvent) {
  place("o-7", 10);
  auto order = load<Order>(*db, events, id_of("o-7"));
  ASSERT_TRUE(order);
  int saved = 0;
  UnitOfWork work(*db);
  work.track(*order, [&](Connection&, const Order&) { ++saved; });
  order->raise(0);
  work.commit();
  EXPECT_EQ(0, saved);
  EXPECT_EQ(1, order->version());
  EXPECT_EQ("1 1 1", rows());
}

TEST_P(UnitOfWorkSuite, WhatFailsInBetweenLeavesAllAsItWas) {
  for (const char* where : {"save", "event"}) {
    Order good = Order::place("good", 10);
    Order bad = Order::place("bad", 10);
    UnitOfWork work(*db);
    work.track(good, save);
    work.track(bad, [&](Connection& line, const Order& order) {
      save(line, order);
      if (where == std::string("save")) throw std::runtime_error("not this one");
    });
    if (where == std::string("event")) work.add(Event{.topic = "t"});  // without a payload
    EXPECT_ANY_THROW(work.commit());
    EXPECT_FALSE(db->in_transaction());
    EXPECT_EQ(1U, good.new_events().size());
    EXPECT_EQ(0, good.version());
    EXPECT_EQ("0 0 0", rows()) << where;
    EXPECT_THROW(work.commit(), Error) << "it has ended";
  }
}

TEST_P(UnitOfWorkSuite, WhoeverIsLateGetsAConflict) {
  place("o-7", 10);
  auto mine = load<Order>(*db, events, id_of("o-7"));
  auto other = load<Order>(*db, events, id_of("o-7"));
  other->raise(1);
  mine->raise(2);
  {
    UnitOfWork work(*db);
    work.track(*other, save);
    work.commit();
  }
  UnitOfWork work(*db);
  work.track(*mine, save);
  try {
    work.commit();
    FAIL();
  } catch (const Conflict& conflict) {
    EXPECT_EQ(1, conflict.expected());
    EXPECT_EQ(2, conflict.actual());
  }
  EXPECT_EQ(1U, mine->new_events().size());
  EXPECT_EQ("11", value("SELECT amount FROM orders")) << "the state was rolled back, too";
  EXPECT_EQ("1 2 2", rows());
}

TEST_P(UnitOfWorkSuite, WithRetriesItReadsAgainAndGoesThrough) {
  place("o-7", 10);
  const auto other = connect(url);
  int attempts = 0;
  const int amount = with_retries(*db, [&](UnitOfWork& work) {
    // SQLite's transactions take turns: there the other comes before this one has begun.
    auto order = load<Order>(work.connection(), events, id_of("o-7"));
    if (++attempts < 3 && !sqlite()) {
      with_retries(*other, [&](UnitOfWork& others) {
        auto same = load<Order>(others.connection(), events, id_of("o-7"));
        same->raise(1);
        others.track(*same, save);
        others.commit();
      });
    }
    order->raise(100);
    work.track(*order, save);
    work.commit();
    return order->amount();
  });
  EXPECT_EQ(sqlite() ? 110 : 112, amount);
  EXPECT_EQ(std::to_string(amount), value("SELECT amount FROM orders"));
}

// The aggregate may be gone when the one who has tracked it has returned.
TEST_P(UnitOfWorkSuite, ToForgetTheCommitIsAnError) {
  const auto forgetful = [](UnitOfWork& work) {
    Order order = Order::place("o-7", 10);
    work.track(order, save);
  };
  EXPECT_THROW(with_retries(*db, forgetful), Error);
  EXPECT_FALSE(db->in_transaction());
  EXPECT_FALSE(with_retries(*db, [](UnitOfWork& work) {
    work.rollback();
    return work.open();
  })) << "not to want it is none";
  EXPECT_EQ("0 0 0", rows());
}

TEST_P(UnitOfWorkSuite, EventsOfNoAggregateGoWithIt) {
  const EventContextScope scope({.actor = "ann"});
  UnitOfWork work(*db);
  Order order = Order::place("o-7", 10);
  work.track(order);
  work.add({.topic = "mail", .payload = "{}", .dedup_key = "welcome"});
  work.commit();
  EXPECT_EQ("0 1 2", rows());
  EXPECT_EQ("2", value("SELECT count(*) FROM " + table("event") + " WHERE CAST(metadata AS text) LIKE '%ann%'"));
}

// Manual: the application enqueues what it likes, and checks versions itself.
TEST_P(UnitOfWorkSuite, WithoutStreamsEventsGoToTheOutboxAlone) {
  UnitOfWork work(*db, {.streams = false});
  Order order = Order::place("o-7", 10);
  order.raise(1);
  work.track(order, save);
  enqueue(work.connection(), {.topic = "by.hand", .payload = "1"});
  work.commit();
  EXPECT_EQ("1 0 3", rows());
  EXPECT_EQ(2, order.version());
  EXPECT_EQ("order/o-7/2", value("SELECT aggregate_type || '/' || aggregate_id || '/' || version FROM " +
                                 table("event") + " WHERE type = 'order.raised'"));
}

TEST_P(UnitOfWorkSuite, ATenantsEventsAreItsOwn) {
  UnitOfWork work(*db, {.transaction = {.tenant = "north"}});
  work.add({.topic = "mail", .payload = "{}"});
  work.commit();
  EXPECT_EQ("north", value("SELECT tenant FROM " + table("event")));
}

TEST_P(UnitOfWorkSuite, ASnapshotIsOfWhatIsCommitted) {
  place("o-7", 10);
  auto order = load<Order>(*db, events, id_of("o-7"));
  order->raise(5);
  EXPECT_THROW(save_snapshot(*db, events, *order), Error);
  EXPECT_FALSE(events.snapshot(*db, id_of("o-7")));
}

TEST_P(UnitOfWorkSuite, AnAggregateIsPlayedBackFromItsSnapshot) {
  EXPECT_FALSE(load<Order>(*db, events, id_of("o-7")));
  place("o-7", 10);
  auto order = load<Order>(*db, events, id_of("o-7"));
  for (int i = 0; i < 1'500; ++i) order->raise(1);
  UnitOfWork work(*db);
  work.track(*order, save);
  work.commit();
  EXPECT_EQ(1'510, load<Order>(*db, events, id_of("o-7"))->amount()) << "over more than one page";
  EXPECT_EQ(1'501, load<Order>(*db, events, id_of("o-7"))->version());
  save_snapshot(*db, events, *order);
  EXPECT_EQ(1'501, events.snapshot(*db, id_of("o-7"))->version);
  db->run("UPDATE " + table("snapshot") + " SET state = $1", bytes("2000"));
  EXPECT_EQ(2'000, load<Order>(*db, events, id_of("o-7"))->amount());
  EXPECT_EQ(1'501, load<Order>(*db, events, id_of("o-7"))->version());
  db->run("UPDATE " + table("snapshot") + " SET schema_version = 0");
  EXPECT_EQ(1'510, load<Order>(*db, events, id_of("o-7"))->amount()) << "a snapshot in another form is none";
}

}  // namespace
}  // namespace waybill
