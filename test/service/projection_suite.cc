#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

#include "waybill/enqueue.h"
#include "waybill/unit_of_work.h"

#include "service/databases.h"
#include "service/tally.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Renamed {
  static constexpr std::string_view type_name = "renamed";
  std::string to_json() const { return "{}"; }
};

inline bool eventually(const std::function<bool()>& condition) {
  for (const auto deadline = std::chrono::steady_clock::now() + 60s; !condition(); std::this_thread::sleep_for(5ms))
    if (std::chrono::steady_clock::now() > deadline) return false;
  return true;
}

class ProjectionSuite : public DatabaseTest {
 protected:
  Projector projector(Projection projection, Log log = {}) {
    return {std::move(projection), [this] { return connect(url); }, std::move(log)};
  }
  std::string tally_value(const std::string& what, const std::string& name) {
    return value("SELECT " + what + " FROM " + tally_table(*db, name));
  }

  const StreamId order{.type = "order", .id = "o-1"};
  const StreamId room{.type = "room", .id = "r-1", .tenant = "north"};
};

INSTANTIATE_TEST_SUITE_P(Databases, ProjectionSuite, every_database, database_name);

TEST_P(ProjectionSuite, EachEventHasItsEffectOnceAndInOrder) {
  append_counted(*db, order, 3);
  Projector one = projector(tally());
  EXPECT_EQ(3, one.catch_up());
  EXPECT_EQ(0, one.catch_up());
  append_counted(*db, order, 2);
  append_counted(*db, room, 1);
  EXPECT_EQ(3, projector(tally()).catch_up()) << "another one goes on where the first was";
  EXPECT_EQ(0, one.catch_up());
  EXPECT_EQ("", difference(*db));
}

TEST_P(ProjectionSuite, ALargeBacklogIsHandledInOrder) {
  for (int i = 0; i < 4; ++i) {
    append_counted(*db, order, 300);
    append_counted(*db, room, 100);
  }
  Projector one = projector(tally());
  EXPECT_EQ(1'600, one.catch_up());
  EXPECT_EQ("", difference(*db));
  EXPECT_EQ(0, one.progress().behind);
}

TEST_P(ProjectionSuite, LargeEventsAreHandledInOrder) {
  Event large = to_event(Counted{});
  large.payload = '"' + std::string(500'000, 'x') + '"';
  large.id.reset();
  Event foreign = to_event(Renamed{});
  foreign.payload = large.payload;
  foreign.id.reset();
  const std::vector<Event> some{large, large, foreign, large, large};
  for (int i = 0; i < 16; ++i) EventStore().append(*db, i % 2 == 0 ? order : room, Expected::any(), some);
  int handled = 0;
  std::map<StreamId, std::int64_t> last;
  Projection lenient = tally([&](const RecordedEvent& event, Connection&) {
    ++handled;
    EXPECT_LT(std::exchange(last[event.stream], event.version), event.version);
  });
  lenient.handlers.ignore_others();
  Projector one = projector(lenient);
  EXPECT_EQ(64, one.catch_up());
  EXPECT_EQ(64, handled);
  EXPECT_EQ(0, one.progress().behind);
}

TEST_P(ProjectionSuite, OnlyStreamsOfItsTypeAndTenant) {
  append_counted(*db, order, 2);
  append_counted(*db, room, 3);
  append_counted(*db, {.type = "room", .id = "r-1"}, 1);
  Projection rooms = tally();
  rooms.stream_type = "room";
  EXPECT_EQ(4, projector(rooms).catch_up());
  EXPECT_EQ("", difference(*db, "aggregate_type = 'room'"));
  Projection north = rooms;
  north.tenant = "north";
  north.version = 2;
  Projector one = projector(north);
  one.rebuild();
  EXPECT_EQ("", difference(*db, "aggregate_type = 'room' AND tenant = 'north'"));
  append_counted(*db, order, 1);
  EXPECT_EQ(0, one.catch_up());
  EXPECT_EQ(0, one.progress().behind) << "it has passed what does not concern it";
}

TEST_P(ProjectionSuite, AnUnknownTypeStopsItUnlessItIgnoresOthers) {
  append_counted(*db, order, 1);
  EventStore().append(*db, order, Expected::any(), std::vector{to_event(Renamed{})});
  append_counted(*db, room, 1);
  Projector strict = projector(tally());
  const std::string why = failure([&] { strict.catch_up(); });
  EXPECT_THAT(why, HasSubstr("projection 'tally'"));
  EXPECT_THAT(why, HasSubstr("(renamed, order/o-1 version 2)"));
  Projection lenient = tally();
  lenient.handlers.ignore_others();
  EXPECT_EQ(2, projector(lenient).catch_up());
  EXPECT_EQ(0, projector(lenient).progress().behind);
}

TEST_P(ProjectionSuite, AHandlerThatThrowsUndoesItsBatchAndIsNamed) {
  append_counted(*db, order, 5);
  bool broken = true;
  Projector one = projector(tally([&](const RecordedEvent& event, Connection&) {
    if (broken && event.version == 4) throw std::invalid_argument("no such room");
  }));
  try {
    one.catch_up();
    ADD_FAILURE() << "it has not thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("(counted, order/o-1 version 4): std::invalid_argument"));
    EXPECT_EQ(Remedy::fix_input, error.remedy());
    EXPECT_THAT(error.what(), Not(HasSubstr("no such room"))) << "it may quote the payload";
    EXPECT_THROW(std::rethrow_if_nested(error), std::invalid_argument);
  }
  EXPECT_EQ("0", tally_value("coalesce(sum(events), 0)", "tally_stream"));
  EXPECT_EQ(0, one.progress().handled);
  EXPECT_EQ(5, one.progress().behind);
  broken = false;
  EXPECT_EQ(5, one.catch_up());
  EXPECT_EQ("", difference(*db));
}

TEST_P(ProjectionSuite, ARunnerTriesAgainLater) {
  append_counted(*db, order, 2);
  std::atomic<bool> broken = true;
  std::atomic<int> complaints = 0;
  Projector one = projector(tally([&](const RecordedEvent&, Connection&) {
                              if (broken) throw 7;
                            }),
                            Log([&](LogLevel level, std::string_view, std::span<const LogField>) {
                              if (level == LogLevel::error) ++complaints;
                            }));
  std::jthread running([&](const std::stop_token& stop) { one.run(stop); });
  ASSERT_TRUE(eventually([&] { return complaints > 0; }));
  broken = false;
  ASSERT_TRUE(eventually([&] { return projections(*db).at(0).handled == 2; }));
  append_counted(*db, order, 1);
  one.wake();
  ASSERT_TRUE(eventually([&] { return projections(*db).at(0).handled == 3; }));
  EXPECT_EQ("", difference(*db));
}

// Its transaction is one of those that it reads: it must not count itself among what it has seen.
TEST_P(ProjectionSuite, WhatAHandlerAppendsIsHandledToo) {
  Projector one = projector(tally([](const RecordedEvent& event, Connection& connection) {
    if (event.stream.type == "order") append_counted(connection, {.type = "echo", .id = event.stream.id});
  }));
  one.catch_up();
  {
    std::vector<std::jthread> others;
    std::atomic<bool> done = false;
    for (int i = 0; i < 2; ++i)
      others.emplace_back([&] {
        const auto line = connect(url);
        for (; !done; std::this_thread::sleep_for(1ms))
          with_retries(*line, [&](Connection&) { append_counted(*line, room); }, {.attempts = 1'000});
      });
    for (int i = 0; i < 30; ++i) {
      with_retries(*db, [&](Connection&) { append_counted(*db, order); }, {.attempts = 1'000});
      one.catch_up();
    }
    done = true;
  }
  one.catch_up();
  one.catch_up();
  EXPECT_EQ("30", value("SELECT events FROM " + tally_table(*db, "tally_stream") + " WHERE type = 'echo'"));
  EXPECT_EQ("", difference(*db));
}

TEST_P(ProjectionSuite, CatchingUpEndsWhileOthersGoOn) {
  append_counted(*db, order, 300);
  int handled = 0;
  Projector one = projector(tally([&](const RecordedEvent& event, Connection& connection) {
    if (++handled > 5'000) throw std::runtime_error("it does not end");
    append_counted(connection, event.stream);
  }));
  EXPECT_LE(300, one.catch_up());
  EXPECT_LT(0, one.progress().behind);
}

TEST_P(ProjectionSuite, WhatAHandlerSendsIsNotSentAgainByARebuild) {
  std::function<void(Connection&)> send = [](Connection& connection) {
    append_counted(connection, {.type = "echo", .id = "e"});
  };
  append_counted(*db, order, 2);
  Projector one = projector(tally([&](const RecordedEvent& event, Connection& connection) {
    if (event.stream.type == "order") send(connection);
  }));
  one.catch_up();
  one.catch_up();
  const auto refused = [&] {
    EXPECT_THAT(failure([&] { one.rebuild(); }), HasSubstr("order/o-1 version 1): an event is written while"));
    EXPECT_EQ(4, count(table("stream_event")));
    EXPECT_EQ(4, count(table("event")));
    EXPECT_EQ("", difference(*db));
  };
  refused();
  send = [](Connection& connection) { enqueue(connection, Event{.topic = "t", .payload = "{}"}); };
  refused();
  const auto other = connect(sqlite() ? "sqlite::memory:" : url);
  send = [&](Connection&) {
    UnitOfWork work(*other);
    work.add(Event{.topic = "t", .payload = "{}"});
    work.commit();
  };
  refused();
  enqueue(*db, Event{.topic = "t", .payload = "{}"});
  EXPECT_EQ(5, count(table("event"))) << "afterwards everything is as before";
}

TEST_P(ProjectionSuite, SeveralRunnersTakeTurns) {
  std::vector<std::unique_ptr<Projector>> projectors;
  for (int i = 0; i < 3; ++i)
    projectors.push_back(std::make_unique<Projector>(tally(), [this] { return connect(url); }));
  std::vector<std::jthread> running;
  for (const auto& one : projectors) running.emplace_back([&](const std::stop_token& stop) { one->run(stop); });
  for (int i = 0; i < 60; ++i) {
    with_retries(*db, [&](Connection&) { append_counted(*db, i % 2 == 0 ? order : room, 5); }, {.attempts = 1'000});
    for (const auto& one : projectors) one->wake();
  }
  EXPECT_TRUE(eventually([&] {
    const auto all = projections(*db);
    return !all.empty() && all[0].handled == 300;
  }));
  running.clear();
  EXPECT_EQ("", difference(*db));
}

TEST_P(ProjectionSuite, ARebuildMakesTheSameAgain) {
  append_counted(*db, order, 700);
  append_counted(*db, room, 30);
  Projector one = projector(tally());
  one.catch_up();
  append_counted(*db, order, 40);  // The live one has not come to these.
  db->run("UPDATE " + tally_table(*db, "tally_stream") + " SET events = 0, last = 0");
  std::vector<std::int64_t> told;
  std::int64_t about = 0;
  one.rebuild([&](std::int64_t done, std::int64_t of) {
    told.push_back(done);
    about = of;
  });
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(770, told.back());
  EXPECT_EQ(770, about);
  EXPECT_EQ("", difference(*db));
  append_counted(*db, order, 1);
  EXPECT_EQ(1, one.catch_up());
  EXPECT_EQ("", difference(*db));
  one.rebuild();
  EXPECT_EQ("", difference(*db)) << "nothing is left that would be in its way";
  EXPECT_EQ(1U, projections(*db).size());
}

TEST_P(ProjectionSuite, TablesThatReferToEachOtherAreRebuilt) {
  append_counted(*db, order, 3);
  std::string child = "'default', 'order', 'o-1'";
  Projection family = tally([&](const RecordedEvent& event, Connection& connection) {
    if (event.version == 2) connection.run("INSERT INTO tally_child (tenant, type, id) VALUES (" + child + ")");
  });
  family.ddl +=
      "; CREATE TABLE tally_child (tenant text, type text, id text, FOREIGN KEY (tenant, type, id) REFERENCES "
      "tally_stream)";
  Projector one = projector(family);
  one.catch_up();
  for (int i = 0; i < 2; ++i) one.rebuild();
  EXPECT_EQ("", difference(*db));
  EXPECT_EQ("1", tally_value("count(*)", "tally_child"));
  child = "'default', 'order', 'nobody'";
  EXPECT_THAT(failure([&] { one.rebuild(); }), HasSubstr("order/o-1 version 2)")) << "at once";
}

TEST_P(ProjectionSuite, ARebuildThatFailsChangesNothing) {
  append_counted(*db, order, 600);
  bool broken = false;
  Projector one = projector(tally([&](const RecordedEvent& event, Connection&) {
    if (broken && event.version == 500) throw std::runtime_error("broken");
  }));
  one.catch_up();
  broken = true;
  EXPECT_THAT(failure([&] { one.rebuild(); }), HasSubstr("version 500): std::runtime_error"));
  broken = false;
  EXPECT_THROW(one.rebuild([](std::int64_t, std::int64_t) { throw std::runtime_error("no more"); }),
               std::runtime_error);
  EXPECT_EQ("", difference(*db));
  EXPECT_EQ(1U, projections(*db).size());
  append_counted(*db, order, 1);
  EXPECT_EQ(1, one.catch_up());
  EXPECT_EQ("", difference(*db));
}

TEST_P(ProjectionSuite, ARebuildThatIsEndedAfterItsLastBatchChangesNothing) {
  append_counted(*db, order, 3);
  projector(tally()).catch_up();
  int batches = 0;
  projector(tally()).rebuild([&](std::int64_t, std::int64_t) { ++batches; });
  db->run("UPDATE " + tally_table(*db, "tally_stream") + " SET events = 7");
  EXPECT_THROW(projector(tally()).rebuild([&](std::int64_t, std::int64_t) {
    if (--batches == 0) throw std::runtime_error("no more");
  }),
               std::runtime_error);
  EXPECT_EQ("7", tally_value("events", "tally_stream"));
  EXPECT_EQ(1U, projections(*db).size());
}

TEST_P(ProjectionSuite, ANewVersionIsRebuiltAndTheOldOneKeepsOff) {
  append_counted(*db, order, 2);
  Projector old = projector(tally());
  old.catch_up();
  Projection changed = tally(
      [](const RecordedEvent&, Connection& connection) { connection.run("INSERT INTO tally_all (n) VALUES (1)"); });
  changed.version = 2;
  changed.ddl += "; CREATE TABLE tally_all (n bigint)";
  Projector next = projector(changed);
  EXPECT_THAT(failure([&] { next.catch_up(); }), HasSubstr("are of version 1, this program's is 2: rebuild it"));
  next.rebuild();
  EXPECT_EQ("2", tally_value("count(*)", "tally_all"));
  append_counted(*db, order, 1);
  EXPECT_THAT(failure([&] { old.catch_up(); }), HasSubstr("are of version 2, this program's is 1: start the newer"));
  EXPECT_THAT(failure([&] { old.rebuild(); }), HasSubstr("to go back on purpose, give this one a version above that"));
  EXPECT_EQ("2", tally_value("coalesce(sum(events), 0)", "tally_stream")) << "it has touched nothing";
  EXPECT_EQ(1, next.catch_up());
  EXPECT_EQ("", difference(*db));
}

TEST_P(ProjectionSuite, EventsFromElsewhereAreHandledInTheirOwnTransaction) {
  Projection fed = tally();
  fed.stream_type = "order";
  make_tables(*db, fed);
  make_tables(*db, fed);
  RecordedEvent event;
  event.id = EventId::make();
  event.stream = order;
  event.version = 1;
  event.type = "counted";
  event.payload = "{}";
  EXPECT_THROW(handle(*db, fed, event), Error) << "there is no transaction";
  {
    Transaction transaction(*db);
    EXPECT_TRUE(handle(*db, fed, event));
  }
  EXPECT_EQ("0", tally_value("coalesce(sum(events), 0)", "tally_stream")) << "it was rolled back";
  {
    Transaction transaction(*db);
    const auto path = [&] { return sqlite() ? "" : value("SHOW search_path"); };
    const std::string before = path();
    EXPECT_TRUE(handle(*db, fed, event));
    EXPECT_EQ(before, path());
    event.stream = room;
    EXPECT_FALSE(handle(*db, fed, event));
    transaction.commit();
  }
  EXPECT_EQ("1", tally_value("coalesce(sum(events), 0)", "tally_stream"));
  EXPECT_THAT(failure([&] { projector(tally()).catch_up(); }), HasSubstr("fed with events from elsewhere"));
  EXPECT_EQ(0, projections(*db).at(0).behind);
}

// The event store does not have what they are made of.
TEST_P(ProjectionSuite, WhatIsFedFromElsewhereIsNotRebuilt) {
  Projection fed = tally();
  make_tables(*db, fed);
  RecordedEvent event;
  event.stream = order;
  event.version = 1;
  event.type = "counted";
  with_retries(*db, [&](Connection&) { handle(*db, fed, event); });
  fed.version = 2;
  const std::string why = failure([&] { make_tables(*db, fed); });
  EXPECT_THAT(why, HasSubstr("are of version 1, this program's is 2: give it another name"));
  EXPECT_THAT(why, Not(HasSubstr("rebuild")));
  EXPECT_THAT(failure([&] { projector(fed).rebuild(); }), HasSubstr("to make it anew, give it another name"));
  EXPECT_EQ("1", tally_value("sum(events)", "tally_stream"));
  fed.version = 1;
  make_tables(*db, fed);
}

// Who catches it goes on in the transaction: on the path that he was on.
TEST_P(ProjectionSuite, AHandlerOfEventsFromElsewhereThatThrowsLeavesTheSearchPath) {
  if (sqlite()) return;
  bool by_the_server = false;
  const Projection fed = tally([&](const RecordedEvent&, Connection& connection) {
    if (by_the_server) connection.run("SELECT 1 / 0");
    throw std::invalid_argument("no such room");
  });
  make_tables(*db, fed);
  RecordedEvent event;
  event.stream = order;
  event.type = "counted";
  Transaction transaction(*db);
  const std::string before = value("SHOW search_path");
  EXPECT_THROW(handle(*db, fed, event), std::invalid_argument);
  EXPECT_EQ(before, value("SHOW search_path"));
  by_the_server = true;
  EXPECT_THROW(handle(*db, fed, event), Error) << "nothing can be put back now, nor need it";
}

TEST_P(ProjectionSuite, HowFarItIsCanBeSeen) {
  Projector one = projector(tally());
  EXPECT_THROW(one.progress(), Error);
  one.catch_up();
  append_counted(*db, order, 7);
  EXPECT_EQ(7, one.progress().behind);
  EXPECT_LT(one.progress().lag, 60s);
  one.catch_up();
  const ProjectionProgress now = one.progress();
  EXPECT_EQ(7, now.handled);
  EXPECT_EQ(0, now.behind);
  EXPECT_EQ(0ms, now.lag);
  EXPECT_GT(now.changed_at, std::chrono::system_clock::now() - 1min);
  const std::string page = prometheus_text(projections(*db));
  EXPECT_THAT(page, HasSubstr("waybill_projection_handled_total{projection=\"tally\",shadow=\"false\"} 7\n"));
  EXPECT_THAT(page, HasSubstr("waybill_projection_lag_seconds{projection=\"tally\",shadow=\"false\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("# TYPE waybill_projection_behind gauge\n"));
}

TEST_P(ProjectionSuite, TheStoreTellsOfItToo) {
  const auto store = sqlite() ? sqlite_store({.path = url.substr(7)}) : postgres_store({.url = url});
  EXPECT_THAT(store->inspector()->status().projections, testing::IsEmpty());
  projector(tally()).catch_up();
  append_counted(*db, order, 7);
  const auto told = store->inspector()->status().projections;
  ASSERT_EQ(1U, told.size());
  EXPECT_EQ("tally", told[0].name);
  EXPECT_EQ(0, told[0].handled);
  EXPECT_EQ(7, told[0].behind);
  EXPECT_GE(told[0].lag, 0ms);
  EXPECT_LT(told[0].lag, 60s);
  EXPECT_GT(told[0].changed_at, std::chrono::system_clock::now() - 1min);
}

TEST_P(ProjectionSuite, ADdlThatFailsLeavesNothing) {
  Projection bad = tally();
  bad.ddl = "CREATE TABLE";
  EXPECT_THROW(projector(bad).catch_up(), Error);
  EXPECT_EQ(0U, projections(*db).size());
  EXPECT_EQ(0, projector(tally()).catch_up()) << "nothing of it is left";
}

TEST(Projection, ItsNameIsChecked) {
  for (const char* name :
       {"", "Tally", "x\"; DROP", "tally__old", "tally__shadow", "waybill", "public", "pg_catalog"}) {
    Projection projection = tally();
    projection.name = name;
    EXPECT_THAT(failure([&] { Projector(projection, [] { return std::unique_ptr<Connection>(); }); }),
                HasSubstr("nor may it end in __shadow or __old, or be another schema's"))
        << name;
  }
}

}  // namespace
}  // namespace waybill
