// A window is what became visible between two snapshots, in the order of seq (design: "Reading a window").

#include <atomic>
#include <set>

#include "waybill/relay.h"
#include "waybill/sink.h"

#include "postgres/postgres_fixture.h"
#include "store/postgres/look.h"

namespace waybill {
namespace {

class WindowsTest : public PostgresTest {};

TEST_F(WindowsTest, Row26_ALateCommitIsDelivered) {
  Sql late = connect();
  late("BEGIN");
  put(late, "a");
  put("b");
  Reader reader(*store);
  EXPECT_EQ("b", reader.names());
  EXPECT_EQ("", reader.names());
  late("COMMIT");
  EXPECT_EQ("a", reader.names());
  EXPECT_EQ("", reader.names());
}

TEST_F(WindowsTest, ALateCommitIsNewsOnce) {
  Sql late = connect();
  late("BEGIN");
  put(late, "a");
  Reader reader(*store);
  EXPECT_FALSE(reader.membership->poll());
  late("COMMIT");
  EXPECT_TRUE(reader.membership->poll());
  EXPECT_FALSE(reader.membership->poll());
}

TEST_F(WindowsTest, TheFirstEventsOfALogAreMoreThanOneChunk) {
  Reader reader(*store, "out", Start::now);
  EXPECT_EQ("", reader.names(1));
  app("BEGIN");
  for (const char* name : {"a", "b", "c"}) put(name);
  app("COMMIT");
  EXPECT_EQ("abc", reader.names(1));
}

// So many transactions later it is not looked for among all that they may have written, but walked to.
TEST_F(WindowsTest, AShardThatIsFarBehind) {
  Sql late = connect();
  late("BEGIN");
  put(late, "0");
  Reader(*store, "out", Start::now).leave();
  app.burn(51'000);
  for (const char* name : {"a", "b", "c"}) put(name);
  put(late, "1");
  late("COMMIT");
  put("d");
  for (const int limit : {100, 1}) {
    Reader reader(*store);
    EXPECT_EQ("0abc1d", reader.names(limit));
    reader.leave();
  }
  Reader reader(*store);
  EXPECT_EQ("0abc1d", reader.names());
  reader.settle_all();
  put("e");
  EXPECT_EQ("e", reader.names());
}

// A snapshot ends behind the last transaction that has ended: one that is open may have a number beyond its end, and
// seqs drawn before it was taken.
TEST_F(WindowsTest, TheNewestTransactionIsOpenAtTheFirstLooks) {
  for (const int limit : {100, 3, 1}) {
    Sql open = connect();
    Reader reader(*store, "limit" + std::to_string(limit), Start::now);
    open("BEGIN");
    for (const char* name : {"a", "b", "c"}) put(open, name);
    reader.session->open(reader.leases, Start::now, false);
    EXPECT_EQ("", reader.names(limit));
    put(open, "d");
    EXPECT_EQ("", reader.names(limit));
    open("COMMIT");
    EXPECT_EQ("abcd", reader.names(limit)) << limit;
    reader.leave();
  }
}

// By transaction numbers the second would come first: it drew its number early, but its event late.
TEST_F(WindowsTest, WithinAWindowSeqIsTheOrderNotTheTransactionsNumber) {
  for (const int limit : {100, 1}) {
    Sql early = connect();
    early("BEGIN; SELECT pg_current_xact_id()");
    put("a");
    put(early, "b");
    early("COMMIT");
    put("c");
    Reader reader(*store, "limit" + std::to_string(limit));
    EXPECT_EQ("abc", reader.names(limit)) << limit;
    reader.leave();
    app("TRUNCATE waybill.event");
  }
}

TEST_F(WindowsTest, ATransactionIsWhollyInsideOneWindow) {
  Sql one = connect();
  one("BEGIN");
  put(one, "a");
  put("b");
  put(one, "c");
  put("d");
  Reader reader(*store);
  EXPECT_EQ("bd", reader.names());
  one("COMMIT");
  EXPECT_EQ("ac", reader.names());
}

TEST_F(WindowsTest, Row1_WhatWasRolledBackIsNotThere) {
  Sql one = connect();
  one("BEGIN");
  put(one, "a");
  one("SAVEPOINT s");
  put(one, "x");
  one("ROLLBACK TO s");
  put(one, "b");
  one("SAVEPOINT t");
  put(one, "c");
  one("RELEASE t; COMMIT; BEGIN");
  put(one, "y");
  one("ROLLBACK");
  for (const int limit : {100, 1}) EXPECT_EQ("abc", Reader(*store, "limit" + std::to_string(limit)).names(limit));
}

// A subtransaction has a number of its own, which is in no snapshot's list: the row carries the number of the whole.
TEST_F(WindowsTest, ASavepointsEventBelongsToItsWholeTransaction) {
  Sql one = connect();
  one("BEGIN; SELECT pg_current_xact_id(); SAVEPOINT s");
  put(one, "a");
  one("RELEASE s");
  put("b");
  Reader reader(*store);
  EXPECT_EQ("b", reader.names());
  one("COMMIT");
  EXPECT_EQ("a", reader.names());
}

// Old and young transactions, open while more is settled than one chunk holds; see Snapshot::base.
class LateTransactionsTest : public WindowsTest, public testing::WithParamInterface<int> {};

TEST_P(LateTransactionsTest, Row26_AreDeliveredInTheirWindowInSeqOrder) {
  const int limit = GetParam();
  Reader reader(*store);
  std::vector<Sql> late;
  std::set<std::int64_t> seen;
  const auto window = [&] {
    const auto events = reader.read_all(limit);
    const auto seqs = seqs_of(events);
    EXPECT_TRUE(std::is_sorted(seqs.begin(), seqs.end()));
    for (const std::int64_t seq : seqs) EXPECT_TRUE(seen.insert(seq).second) << seq << " was delivered twice";
    EXPECT_TRUE(reader.settle_all().empty());
    return Reader::names_of(events);
  };
  for (int i = 0; i < 6; ++i) {
    late.push_back(connect());
    late.back()("BEGIN");
    put(late.back(), std::to_string(i));
  }
  for (int i = 0; i < 10; ++i) put("a");
  EXPECT_EQ(std::string(10, 'a'), window());

  late[1]("COMMIT");  // young
  for (int i = 0; i < 10; ++i) put("b");
  put(late[2], "2");
  late[2]("COMMIT");
  EXPECT_EQ("12" + std::string(10, 'b') + "2", window());

  app.burn(1'500);  // Now the rest of them are old.
  for (int i = 0; i < 10; ++i) put("c");
  EXPECT_EQ(std::string(10, 'c'), window());
  late[3]("ROLLBACK");
  late[4]("COMMIT");
  Sql young = connect();
  young("BEGIN");
  put(young, "y");
  for (int i = 0; i < 10; ++i) put("d");
  EXPECT_EQ("4" + std::string(10, 'd'), window());

  put(late[0], "0");
  late[0]("COMMIT");
  young("COMMIT");
  for (int i = 0; i < 10; ++i) put("e");
  EXPECT_EQ("0y0" + std::string(10, 'e'), window());
  late[5]("COMMIT");
  EXPECT_EQ("5", window());
  EXPECT_EQ("", window());
}

INSTANTIATE_TEST_SUITE_P(Limits, LateTransactionsTest, testing::Values(1, 3, 50, 1000));

TEST_F(WindowsTest, AWindowReadByProbeIsResumedInItsMiddle) {
  Sql late = connect();
  late("BEGIN");
  put(late, "0");
  Reader(*store).leave();
  for (const char* name : {"a", "b", "c", "d"}) put(name);
  put(late, "1");
  late("COMMIT");
  Reader first(*store);
  ASSERT_EQ("0abcd1", first.names(100));
  std::map<std::int32_t, std::size_t> counts;
  for (const std::int32_t each : first.shards) counts[each] = std::min<std::size_t>(2, first.unsettled(each));
  first.settle(counts);
  first.leave();
  put("e");
  Reader second(*store);
  EXPECT_EQ("bcd1e", second.names(100));
  second.settle_all();
  second.leave();
  EXPECT_EQ("", Reader(*store).names());
}

TEST_F(WindowsTest, AWindowBeingWalkedIsResumedAtEveryPlaceOfIt) {
  Sql old = connect();
  Sql young = connect();
  old("BEGIN");
  put(old, "0");
  app.burn(1'500);
  young("BEGIN");
  put(young, "1");
  {
    Reader begin(*store);
    put("x");
    EXPECT_EQ("x", begin.names());
    begin.settle_all();
    begin.leave();
  }
  for (const char* name : {"a", "b", "c"}) put(name);
  put(old, "2");
  old("COMMIT");
  put(young, "3");
  young("COMMIT");
  put("d");
  // Each takes one step and hands over. What came after the window was fixed waits for the next window.
  std::string all;
  for (int i = 0; i < 12; ++i) {
    Reader reader(*store);
    const std::string rest = reader.names(2);
    EXPECT_THAT(std::string("01abc23d") + (i > 0 ? "efghij" : ""), testing::HasSubstr(rest)) << i;
    std::map<std::int32_t, std::size_t> counts;
    for (const std::int32_t shard : reader.shards)
      if (reader.unsettled(shard) > 0) counts[shard] = 1;
    reader.settle(counts);
    reader.leave();
    for (const auto& event : reader.settled) all += event.name;
    if (i == 0)
      for (const char* name : {"e", "f", "g", "h", "i", "j"}) put(name);
  }
  EXPECT_EQ("01abc23defgh", all);
}

// A walk whose last chunk was full ends with nothing; so does one that is resumed after its last event. What was
// committed meanwhile must be read all the same: nobody will tell of it again.
TEST_F(WindowsTest, AWalkThatEndsWithNothingIsNotTheEnd) {
  put("a");
  put("b");
  Reader first(*store);
  first.exchange(1);
  EXPECT_EQ("a", Reader::names_of(first.exchange(1)));
  EXPECT_EQ("b", Reader::names_of(first.exchange(1)));
  put("c");
  EXPECT_EQ("c", Reader::names_of(first.exchange(1)));
  for (const std::int32_t shard : first.shards)
    if (first.unsettled(shard) > 0) first.settle({{shard, 2}});
  first.leave();
  std::string delivered;
  Relay relay(*store, {.name = "test"});
  relay.add({.name = "out"}, sink_from([&](const EventView& event) {
              delivered += event.payload.substr(1, 1);
              return Outcome::Kind::delivered;
            }));
  relay.drain({});
  EXPECT_EQ("c", delivered);
}

TEST_F(WindowsTest, ShardsAtDifferentPlacesAreBroughtLevelByOneExchange) {
  for (int i = 0; i < 64; ++i) put("a", std::to_string(i));
  Reader first(*store);
  ASSERT_EQ(64U, first.read_all().size());
  std::map<std::int32_t, std::size_t> some;
  for (const std::int32_t shard : first.shards)
    if (shard % 3 == 0)
      some[shard] = first.unsettled(shard);
    else if (shard % 3 == 1)
      some[shard] = 1;
  first.settle(some);
  const auto settled = first.settled.size();
  first.leave();

  Reader second(*store);
  const auto rows = app.number("SELECT count(*) FROM waybill.cursor");
  std::size_t read = second.exchange(100).size();
  read += second.read_all(100).size();  // what was being walked through comes in a second one
  EXPECT_EQ(64U, settled + read);
  second.settle_all();
  EXPECT_EQ(rows + 1, app.number("SELECT count(*) FROM waybill.cursor"));
  EXPECT_EQ(16, app.number("SELECT cardinality(shards) FROM waybill.cursor ORDER BY id DESC LIMIT 1"));
}

TEST_F(WindowsTest, Row24_NobodyIsHeldUpByAnOpenTransaction) {
  Sql idle = connect();
  idle("CREATE TABLE mine (n int); BEGIN; INSERT INTO mine VALUES (1)");
  Sql elsewhere(server.fresh_database());
  elsewhere("CREATE TABLE mine (n int); BEGIN; INSERT INTO mine VALUES (1)");
  Sql snapshot = connect();
  snapshot("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
  Reader reader(*store);
  for (const char* name : {"a", "b", "c"}) {
    put(name);
    EXPECT_TRUE(reader.membership->poll());
    EXPECT_EQ(name, reader.names());
    EXPECT_TRUE(reader.settle_all().empty());
    EXPECT_FALSE(reader.membership->poll());
  }
  EXPECT_EQ(0, store->inspector()->status().destinations.at(0).pending.value);
}

// A row copied in with a number that this server has not given out must not come again and again, and is reported.
TEST_F(WindowsTest, AForeignTransactionNumberIsNotDeliveredAndIsReported) {
  app("INSERT INTO waybill.event (xid, topic, payload, key) VALUES ((pg_current_xact_id()::text::bigint + "
      "1000000)::text::xid8, 't', '1', "
      "'k')");
  put("a");
  Reader reader(*store);
  EXPECT_EQ("a", reader.names(100));
  EXPECT_EQ("", reader.names(1));
  std::string problems;
  for (const Finding& finding : store->inspector()->examine())
    if (finding.level == Finding::Level::problem) problems += finding.what + ";";
  EXPECT_THAT(problems, testing::HasSubstr("foreign rows"));
}

TEST_F(WindowsTest, AStartAtNowLeavesOutWhatWasCommittedAndNothingElse) {
  Sql open = connect();
  open("BEGIN");
  put(open, "b");
  put("a");
  Reader reader(*store, "late", Start::now);
  EXPECT_EQ("", reader.names());
  open("COMMIT");
  put("c");
  EXPECT_EQ("bc", reader.names());
}

// What look.cc takes for granted: read without a lock, a sequence shows up to 32 more than was drawn, and no more.
TEST_F(WindowsTest, ASequenceIsNeverFurtherAheadThanIsAllowedFor) {
  std::atomic<bool> stop = false;
  std::vector<std::jthread> producers;
  for (int i = 0; i < 3; ++i)
    producers.emplace_back([&] {
      Sql sql(url);
      while (!stop) sql("SELECT nextval('waybill.event_seq_seq') FROM generate_series(1, 100)");
    });
  std::int64_t ahead = INT64_MIN;
  for (const auto end = std::chrono::steady_clock::now() + 2s; std::chrono::steady_clock::now() < end;) {
    const std::int64_t shown = app.number("SELECT last_value FROM waybill.event_seq_seq");
    ahead = std::max(ahead, shown - app.number("SELECT nextval('waybill.event_seq_seq')"));
  }
  stop = true;
  EXPECT_LT(ahead, 32);
}

// Whoever reads a sequence may see it 32 ahead of what was drawn: what is drawn later
// is above what was read then, less that.
TEST(Floors, LeaveRoomForASequenceThatShowsMoreThanWasDrawn) {
  Floors floors;
  floors.read(132);
  floors.looked({.xmin = 50, .xmax = 50}, 1'000);
  ASSERT_TRUE(floors.find(50));
  EXPECT_LE(*floors.find(50), 100) << "101 may be drawn after 132 was read";
  EXPECT_FALSE(floors.find(49)) << "from before the first look";
  floors.looked({.xmin = 60, .xmax = 60}, 2'000);
  EXPECT_LE(*floors.find(59), 100) << "began before the second look had ended";
  EXPECT_GT(*floors.find(60), 900);
}

}  // namespace
}  // namespace waybill
