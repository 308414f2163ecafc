// What a crash of the server undoes (design: "Reading a window", "What was read from the database lives only as long as
// the connection it was read on").

#include <future>
#include <set>

#include "waybill/relay.h"
#include "waybill/testing.h"

#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

TmpPostgres& durable_server() {
  // Room for all that is not flushed: a full buffer would be written out. And nobody else who commits.
  static TmpPostgres server(true, {"wal_buffers=32MB", "autovacuum=off"});
  return server;
}

class CrashTest : public PostgresTest {
 protected:
  CrashTest() : PostgresTest(16, durable_server()) { server.stop_wal_writer(); }

  void crash_and_restart() {
    server.crash();
    server.start();
    server.stop_wal_writer();
    app = connect();
  }

  std::set<std::string> log() {
    const auto seqs = app.column("SELECT seq || ' ' || (payload #>> '{}') FROM waybill.event");
    return {seqs.begin(), seqs.end()};
  }
};

std::string line(const Reader::Seen& event) {
  return std::to_string(event.seq) + ' ' + event.name;
}

TEST_F(CrashTest, Row21_WhatWasReadStillExistsThoughItsCommitWasAsynchronous) {
  constexpr int crashes = 4;
  int lost = 0;
  app("ALTER DATABASE " + app("SELECT current_database()") + " SET synchronous_commit = off");
  for (int i = 0; i < crashes; ++i) {
    app("SET synchronous_commit = off");
    for (int n = 0; n < 20; ++n) put(std::to_string(100 * i + n), std::to_string(n));
    Reader reader(*store);
    // Half of them by a probe, half by walks; then more, beside a settlement.
    std::vector<Reader::Seen> read = reader.read_all(i % 2 == 0 ? 100 : 1);
    put("last");
    const auto more = reader.exchange(100);
    read.insert(read.end(), more.begin(), more.end());
    for (int n = 0; n < 20; ++n) put("never read", std::to_string(n));
    const auto before = log();
    crash_and_restart();
    const auto after = log();
    EXPECT_GE(read.size(), 21U);
    for (const auto& event : read) EXPECT_TRUE(after.contains(line(event))) << line(event) << " is a phantom";
    lost += static_cast<int>(before.size() - after.size());
    app("UPDATE waybill.relay SET alive_until = clock_timestamp()");
  }
  EXPECT_GT(lost, 0) << "a crash that undoes nothing shows nothing";
}

TEST_F(CrashTest, Row21_WhatWasReadBesideASettlementStillExists) {
  app("SET synchronous_commit = off");
  put("a");
  Reader reader(*store);
  reader.read_all();
  put("b");
  const auto shard = static_cast<std::int32_t>(app.number("SELECT shard FROM waybill.event LIMIT 1"));
  Settlement settlement{.shard = shard, .term = reader.leases.at(static_cast<std::size_t>(shard)).term};
  for (const Lease& lease : reader.leases)
    if (lease.shard == shard) settlement.term = lease.term;
  const Reading first = reader.session->exchange({}, {reader.shards, 10, 1 << 20});
  ASSERT_FALSE(first.chunks.empty());
  settlement.window = first.chunks.front().window;
  settlement.window_done = true;
  put("c");
  const Reading second = reader.session->exchange(std::span(&settlement, 1), {reader.shards, 10, 1 << 20});
  put("never read");
  std::vector<std::int64_t> read;
  for (const Reading* reading : {&first, &second})
    for (const Chunk& chunk : reading->chunks)
      for (const EventView& event : chunk.events) read.push_back(event.seq);
  crash_and_restart();
  EXPECT_EQ(2U, read.size());
  for (const std::int64_t seq : read)
    EXPECT_EQ(1, app.number("SELECT count(*) FROM waybill.event WHERE seq = " + std::to_string(seq)));
  EXPECT_EQ(3, app.number("SELECT count(*) FROM waybill.event"));
}

TEST_F(CrashTest, Row21_WhatAFollowerReadStillExists) {
  app("SET synchronous_commit = off");
  put("a");
  const auto follower = store->follow();
  ASSERT_EQ(1U, follower->read("", 10).items.size());
  put("never read");
  crash_and_restart();
  EXPECT_EQ(1, app.number("SELECT count(*) FROM waybill.event"));
}

// The control: the same read without the fence's lock, which makes the commit reach the disk, sees a phantom.
TEST_F(CrashTest, AReadWithoutTheLockSeesPhantoms) {
  app("SET synchronous_commit = off");
  put("a");
  Sql reader = connect();
  reader("BEGIN; SET LOCAL synchronous_commit = on");
  EXPECT_EQ("1", reader("SELECT count(*) FROM waybill.event"));
  reader("COMMIT");
  crash_and_restart();
  EXPECT_EQ("0", app("SELECT count(*) FROM waybill.event"));
}

// And so does one after the commit, however safe that was: it covers what was committed before it only.
TEST_F(CrashTest, AReadAfterTheLocksCommitSeesPhantoms) {
  Reader claimed(*store);
  app("SET synchronous_commit = off");
  Sql reader = connect();
  reader("BEGIN; SET LOCAL synchronous_commit = on; SELECT 1 FROM waybill.lease FOR KEY SHARE; COMMIT");
  put("a");
  EXPECT_EQ("1", reader("SELECT count(*) FROM waybill.event"));
  crash_and_restart();
  EXPECT_EQ("0", app("SELECT count(*) FROM waybill.event"));
}

// Which commits reach the disk, and with them all that was committed before.
struct Way {
  std::string name;
  std::string transaction;
  bool flushes;
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class FlushTest : public CrashTest, public testing::WithParamInterface<Way> {};

TEST_P(FlushTest, IsAsTheDesignSays) {
  app("CREATE UNLOGGED TABLE unlogged (n int); CREATE TABLE logged (n int PRIMARY KEY); INSERT INTO logged VALUES (1); "
      "CHECKPOINT");
  app("SET synchronous_commit = off");
  if (GetParam().name == "LockButTheDatabasesDefaultIsOff")
    app("ALTER DATABASE " + app("SELECT current_database()") + " SET synchronous_commit = off");
  Sql relay = connect();
  put("a");
  relay(GetParam().transaction);
  crash_and_restart();
  EXPECT_EQ(GetParam().flushes ? 1 : 0, app.number("SELECT count(*) FROM waybill.event"));
}

const std::string on = "BEGIN; SET LOCAL synchronous_commit = on; ";
INSTANTIATE_TEST_SUITE_P(
    Ways, FlushTest,
    testing::Values(Way{"ReadOnly", on + "SELECT count(*) FROM waybill.event; COMMIT", false},
                    Way{"TransactionNumberAlone", on + "SELECT pg_current_xact_id(); COMMIT", false},
                    Way{"UnloggedTable", on + "INSERT INTO unlogged VALUES (1); COMMIT", false},
                    Way{"UpdateOfNoRow", on + "UPDATE logged SET n = 2 WHERE n = 7; COMMIT", false},
                    Way{"InsertThatConflicts", on + "INSERT INTO logged VALUES (1) ON CONFLICT DO NOTHING; COMMIT",
                        false},
                    Way{"LockButTheDatabasesDefaultIsOff", "BEGIN; SELECT 1 FROM logged FOR KEY SHARE; COMMIT", false},
                    Way{"LockThatIsRolledBack", on + "SELECT 1 FROM logged FOR KEY SHARE; ROLLBACK", false},
                    Way{"Lock", on + "SELECT 1 FROM logged FOR KEY SHARE; COMMIT", true},
                    Way{"Message", on + "SELECT pg_logical_emit_message(true, 'waybill', ''); COMMIT", true}),
    [](const auto& way) { return way.param.name; });

// A relay that takes one step after another, by a thread where a step may have to wait.
class ReconnectTest : public CrashTest {
 protected:
  ReconnectTest() {
    relay.add({.name = "out"}, std::make_unique<ScriptedSink>(script));
    awake("SELECT pg_advisory_lock_shared(hashtextextended('waybill wake', 0))");
  }

  bool steps_until(const std::function<bool()>& condition) {
    return eventually([&] { return relay.step() == 0 && condition(); });
  }
  bool delivered(const std::string& name) {
    return std::find(script.delivered.begin(), script.delivered.end(), '"' + name + '"') != script.delivered.end();
  }

  Sql awake = connect();  // Keeps the relay from sleeping: it polls.
  ScriptedSink::Script script;
  // Polls leave no trace in the server's log; a heartbeat does, so there is none for minutes.
  Relay relay{*store, {.name = "test", .poll_idle = 10ms, .lease = 10min}};
};

// Transactions without effect use up numbers; the relay's poll sees that; the server crashes, and hands the numbers out
// again. A relay that still went by what it had seen would take the new event for an old one.
TEST_F(ReconnectTest, WhatWasSeenIsNotKeptOverAReconnect) {
  put("a");
  ASSERT_TRUE(steps_until([&] { return delivered("a"); }));
  Sql strangers(server.url("postgres"));
  strangers.burn(1'000);
  const auto keeper_spoke = [&] {
    return app("SELECT query_start FROM pg_stat_activity WHERE application_name = 'waybill keeper'");
  };
  const std::string before = keeper_spoke();
  ASSERT_TRUE(steps_until([&] { return keeper_spoke() != before; }));
  const auto seen = app.number("SELECT pg_snapshot_xmax(pg_current_snapshot())::text");

  crash_and_restart();
  put("b");
  EXPECT_LT(app.number("SELECT max(xid::text::bigint) FROM waybill.event"), seen)
      << "no number is handed out again: this crash shows nothing";
  EXPECT_TRUE(steps_until([&] { return delivered("b"); }));
}

// What exchange() saw is on disk, and so are the numbers: they are not handed out again, whatever was rolled back.
TEST_F(ReconnectTest, TheNumbersThatAReadHasSeenAreNotHandedOutAgain) {
  Reader reader(*store);
  Sql blocker = connect();
  blocker("BEGIN; LOCK TABLE waybill.event");
  auto reading = std::async(std::launch::async, [&] { reader.exchange(10); });
  // The read's transaction has its number and its lock; now it waits for the log.
  ASSERT_TRUE(eventually([&] { return app.number("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1; }));
  Sql strangers(server.url("postgres"));
  strangers.burn(1'000);
  const auto seen = app.number("SELECT pg_snapshot_xmax(pg_current_snapshot())::text");
  blocker("ROLLBACK");
  reading.get();
  crash_and_restart();
  EXPECT_GE(app.number("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"), seen);
}

// The same with progress that was not saved: what was delivered before the crash may come again, nothing is missing.
TEST_F(ReconnectTest, Row4_7_WhatWasNotSettledComesAgain) {
  script.answers = false;
  for (const char* name : {"a", "b", "c"}) put(name, name);
  ASSERT_TRUE(steps_until([&] { return script.attempted.size() == 3; }));
  crash_and_restart();
  script.answers = true;
  put("d", "a");
  EXPECT_TRUE(steps_until([&] { return delivered("a") && delivered("b") && delivered("c") && delivered("d"); }));
}

}  // namespace
}  // namespace waybill
