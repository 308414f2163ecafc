// A destination goes on from an earlier place, or is forgotten, whatever runs beside it.

#include <thread>

#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class RewindTest : public PostgresTest {
 protected:
  explicit RewindTest(int shards = 1) : PostgresTest(shards) {}

  Count rewind(const RewindTo& to, bool dry = false) {
    return desk->rewind({.id = EventId::make(), .by = "me"}, "out", to, dry);
  }
  Time now() {
    return Time(
        std::chrono::microseconds(app.number("SELECT (1000000 * extract(epoch FROM clock_timestamp()))::bigint")));
  }

  const std::unique_ptr<Operator> desk = store->operate();
};

TEST_F(RewindTest, ToTheBeginningATimeOrAnEvent) {
  Reader reader(*store);
  std::map<std::string, EventId> ids;
  std::map<std::string, Time> times;
  for (const std::string name : {"a", "b", "c", "d"}) {
    times[name] = now();
    ids[name] = put(name);
    ASSERT_EQ(name, reader.names());
    ASSERT_THAT(reader.settle_all(), IsEmpty());
  }
  EXPECT_EQ(4, rewind({}, true).value);
  EXPECT_EQ(2, rewind({.time = times["c"]}, true).value);
  EXPECT_EQ(3, rewind({.event = ids["b"]}, true).value);
  EXPECT_EQ(0, rewind({.time = now()}, true).value);
  EXPECT_THROW(rewind({.event = EventId::make()}), Error);
  put("e");
  EXPECT_EQ("e", reader.names()) << "dry runs change nothing";

  const Count again = rewind({.time = times["c"]});
  EXPECT_EQ(2, again.value);
  EXPECT_TRUE(again.exact);
  EXPECT_THAT(reader.settle_all(), SizeIs(1)) << "it is fenced";
  EXPECT_EQ("cde", Reader(*store).names());
  rewind({.event = ids["b"]});
  Reader third(*store);
  EXPECT_EQ("bcde", third.names());
  EXPECT_THAT(third.settle_all(), IsEmpty());
  EXPECT_EQ("published", store->inspector()->find(ids["a"])->destinations.at(0).state);
  rewind({});
  EXPECT_EQ("pending", store->inspector()->find(ids["a"])->destinations.at(0).state);
  Reader fourth(*store);
  EXPECT_EQ("abcde", fourth.names());
  EXPECT_EQ(0, fourth.opened.at(0).crashes);
}

TEST_F(RewindTest, ToAnEventInTheMiddleOfALargeWindow) {
  app("INSERT INTO waybill.event (topic, payload, key) SELECT 't', to_json(n::text), n::text FROM generate_series(1, "
      "100) n");
  Reader reader(*store);
  do {
    reader.exchange(10);
    reader.settle_all();
  } while (reader.more);
  const auto id = EventId::parse(app("SELECT id FROM waybill.event WHERE seq = 34"));
  EXPECT_EQ(70, rewind({.event = id}).value) << "it stands in the chunk of 31 to 40";
  const auto again = Reader(*store).read_all(1000);
  ASSERT_THAT(again, SizeIs(70));
  EXPECT_EQ("31", again.front().name);
}

TEST_F(RewindTest, ManyAreCountedAbout) {
  app("INSERT INTO waybill.event (topic, payload, key) SELECT 't', '1', 'k' FROM generate_series(1, 12000)");
  Reader reader(*store);
  reader.read_all(5'000);
  reader.settle_all();
  const Count again = rewind({}, true);
  EXPECT_EQ(12'000, again.value);
  EXPECT_FALSE(again.exact);
}

TEST_F(RewindTest, RepeatedItDoesNothing) {
  put("a");
  Reader reader(*store);
  reader.names();
  reader.settle_all();
  const Operation operation{.id = EventId::make()};
  EXPECT_EQ(1, desk->rewind(operation, "out", {}, false).value);
  Reader second(*store);
  EXPECT_EQ("a", second.names());
  EXPECT_EQ(1, desk->rewind(operation, "out", {}, false).value);
  EXPECT_THAT(second.settle_all(), IsEmpty());
}

class RewindAllShardsTest : public RewindTest {
 protected:
  RewindAllShardsTest() : RewindTest(4) {}
};

// Rewinds, to anywhere, beside one that reads and settles, and takes its leases again and again: at the end everything
// from the last rewind on has been settled by somebody, and nobody has waited for ever.
TEST_F(RewindAllShardsTest, BesideASessionThatReads) {
  std::atomic<bool> stop = false;
  std::vector<EventId> ids;
  std::atomic<int> settled = 0;
  std::jthread relay([&] {
    while (!stop) {
      Reader reader(*store);
      while (!stop) {
        for (const Chunk& chunk : reader.session->exchange({}, {reader.shards, 7, 1 << 20}).chunks) {
          Settlement settlement = reader.change(chunk.shard);
          settlement.window = chunk.window;
          settlement.seq = chunk.events.empty() ? 0 : chunk.events.back().seq;
          settlement.window_done = chunk.ends_window;
          settlement.count = std::ssize(chunk.events);
          if (chunk.events.empty() && !chunk.ends_window) continue;
          if (!chunk.events.empty() && chunk.events.back().seq % 5 == 0)
            settlement.undelivered = {{.seq = chunk.events.back().seq, .standing = Standing::dead}};
          if (reader.session->exchange(std::span(&settlement, 1), {}).lost.empty()) settled += 1;
        }
        const std::string out = "out";
        if (reader.membership->beat(std::span(&out, 1)).mine.empty()) break;
      }
      reader.leave();
    }
  });
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 20; ++i) ids.push_back(put("x", std::to_string(i)));
    const int before = settled;
    ASSERT_TRUE(eventually([&] { return settled > before + 2; }));
    if (round % 3 == 0) rewind({});
    if (round % 3 == 1) rewind({.event = ids[ids.size() / 2]});
    if (round % 3 == 2) rewind({.time = now() - 50ms});
    desk->redrive({.id = EventId::make()}, {.destination = "out"}, 10);
  }
  EXPECT_TRUE(eventually([&] { return store->inspector()->status().destinations.at(0).pending.value == 0; }));
  stop = true;
  relay.join();
  // What was read last was read whole.
  rewind({});
  Reader reader(*store);
  EXPECT_THAT(reader.read_all(), SizeIs(600));
}

TEST_F(RewindTest, ForgottenIsForgotten) {
  const EventId id = put("a");
  put("b");
  Reader reader(*store);
  reader.exchange(1);
  reader.read_all();
  ASSERT_THAT(reader.pass(0, {{.seq = 1, .key = 7, .blocks = true, .attempts = 1}}), IsEmpty());
  put("c");
  EXPECT_THROW(desk->forget({.id = EventId::make()}, "out", false), Error) << "a relay serves it";
  EXPECT_THROW(desk->forget({.id = EventId::make()}, "other", false), Error);
  reader.leave();
  EXPECT_EQ(2, desk->forget({.id = EventId::make()}, "out", true).value);
  const Operation operation{.id = EventId::make()};
  EXPECT_EQ(2, desk->forget(operation, "out", false).value);
  EXPECT_EQ(2, desk->forget(operation, "out", false).value) << "repeated";
  EXPECT_THAT(store->inspector()->status().destinations, IsEmpty());
  for (const char* table : {"destination", "lease", "cursor", "undelivered", "attempt"})
    EXPECT_EQ(0, app.number(std::string("SELECT count(*) FROM waybill.") + table)) << table;
  EXPECT_THAT(store->inspector()->find(id)->destinations, IsEmpty());
  EXPECT_EQ("forget", desk->history(1).at(0).kind);
  EXPECT_EQ("abc", Reader(*store).names()) << "named again, it is a new one";
}

}  // namespace
}  // namespace waybill
