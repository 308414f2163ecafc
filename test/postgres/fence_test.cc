// A lease's term is the fence: whoever comes with an old one writes nothing, and a successor sees the last word of the
// one before (design: "Leases and the fence").

#include <barrier>
#include <future>

#include "postgres/postgres_fixture.h"
#include "store/postgres/connection.h"

namespace waybill {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class FenceTest : public PostgresTest {
 protected:
  FenceTest() : PostgresTest(1) {}

  std::int64_t cursors() { return app.number("SELECT count(*) FROM waybill.cursor"); }

  static std::string lock_of(const Reader& reader) {
    return "SELECT 1 FROM waybill.lease WHERE destination = 'out' AND shard = 0 AND term = " +
           std::to_string(reader.leases.at(0).term) + " AND owner = '" + reader.relay.id + "' FOR KEY SHARE";
  }

  static std::vector<Lease> free_leases(Membership& membership) {
    const std::string out = "out";
    return membership.beat(std::span(&out, 1)).free;
  }
};

TEST_F(FenceTest, Row73_AZombiesSettlementWritesNothing) {
  put("a");
  Reader zombie(*store);
  ASSERT_EQ("a", zombie.names());
  silence(zombie);
  Reader successor(*store);
  ASSERT_THAT(successor.leases, SizeIs(1));
  const auto before = cursors();
  EXPECT_THAT(zombie.settle_all(), testing::ElementsAre(0));
  EXPECT_EQ(before, cursors());
  EXPECT_EQ("a", successor.names());
}

TEST_F(FenceTest, Row73_AZombieReadsNothing) {
  Reader zombie(*store);
  silence(zombie);
  Reader successor(*store);
  put("a");
  const Reading reading = zombie.session->exchange({}, {zombie.shards, 10, 1 << 20});
  EXPECT_THAT(reading.lost, testing::ElementsAre(0));
  EXPECT_THAT(reading.chunks, IsEmpty());
}

TEST_F(FenceTest, Row75_AZombieDoesNotGiveAwayItsSuccessorsLease) {
  Reader zombie(*store);
  silence(zombie);
  Reader successor(*store);
  zombie.session->release(zombie.leases);
  const std::string out = "out";
  EXPECT_EQ(successor.leases, successor.membership->beat(std::span(&out, 1)).mine);
}

TEST_F(FenceTest, Row73_AZombieDoesNotOpenWhatItLost) {
  Reader zombie(*store);
  silence(zombie);
  Reader successor(*store);
  auto again = store->connect(zombie.relay, "out");
  EXPECT_THAT(again->open(zombie.leases, Start::beginning, true), IsEmpty());
}

TEST_F(FenceTest, Row75_TheSameTermOfAnotherOwnerIsNoRight) {
  Reader reader(*store);
  put("a");
  reader.names();
  app("UPDATE waybill.lease SET owner = 'another'");  // as after a failover that lost the tail
  const auto before = cursors();
  EXPECT_THAT(reader.settle_all(), SizeIs(1));
  EXPECT_EQ(before, cursors());
}

// The take-over neither waits for ever behind a zombie's open transaction nor passes it.
TEST_F(FenceTest, ATakeOverHappensOnceTheZombiesTransactionIsGone) {
  Reader zombie(*store);
  Sql open = connect();
  open("BEGIN");
  ASSERT_EQ("1", open(lock_of(zombie)));
  silence(zombie);
  const auto membership = store->join({.id = "successor", .name = "successor"});
  const auto free = free_leases(*membership);
  ASSERT_THAT(free, SizeIs(1));
  auto taken = std::async(std::launch::async, [&] { return membership->take(free); });
  const bool in_time = taken.wait_for(5s) == std::future_status::ready;
  open("ROLLBACK");
  ASSERT_TRUE(in_time) << "it waits behind the zombie";
  EXPECT_THAT(taken.get(), IsEmpty());
  EXPECT_THAT(membership->take(free), SizeIs(1));
}

// What a relay's transaction that is stopped in its middle would hold, the server ends by itself.
TEST_F(FenceTest, Security20_TheServerEndsATransactionThatStandsStill) {
  PgConnection connection(url, "test");
  const PgQuery query{"asked",
                      "SELECT current_setting('idle_in_transaction_session_timeout'), "
                      "current_setting('synchronous_commit'), current_setting('transaction_isolation')"};
  connection.script("SET synchronous_commit = off; SET default_transaction_isolation = serializable");
  const PgStatement statement{&query};
  const PgRows inside = connection.transact(std::span(&statement, 1)).at(0);
  EXPECT_EQ("3s", inside.text(0, 0));
  EXPECT_EQ("on", inside.text(0, 1));
  EXPECT_EQ("read committed", inside.text(0, 2));
  const PgRows after = connection.run(statement);
  EXPECT_EQ("0", after.text(0, 0)) << "nothing may rest in the session: a pooler gives it to others";
  EXPECT_EQ("off", after.text(0, 1));
}

TEST_F(FenceTest, TheSuccessorSeesWhatWasSettledBeforeTheTakeOver) {
  put("a");
  put("b");
  Reader zombie(*store);
  ASSERT_EQ("ab", zombie.names());
  // The zombie's settlement, in a transaction that is still open when the take-over begins.
  Sql open = connect();
  open("BEGIN");
  open(lock_of(zombie));
  open(
      "INSERT INTO waybill.cursor (destination, shards, settled, hi, count) SELECT 'out', '{0}', s, "
      "pg_snapshot_xmax(s), 2 FROM (SELECT '" +
      app("SELECT pg_current_snapshot()") + "'::pg_snapshot AS s) x");
  silence(zombie);
  const RelayIdentity relay{.id = "successor", .name = "successor"};
  const auto membership = store->join(relay);
  const auto free = free_leases(*membership);
  std::vector<Lease> won = membership->take(free);
  EXPECT_THAT(won, IsEmpty());
  auto later = std::async(std::launch::async, [&] {
    while (won.empty()) won = membership->take(free);
  });
  open("COMMIT");
  later.get();
  const auto session = store->connect(relay, "out");
  session->open(won, Start::beginning, false);
  const Reading reading = session->exchange({}, {{0}, 10, 1 << 20});
  for (const Chunk& chunk : reading.chunks) EXPECT_THAT(chunk.events, IsEmpty()) << "read a stale cursor";
}

// The same by the store itself: its settlement holds the lock until its commit.
TEST_F(FenceTest, Row79_ATakeOverDoesNotPassASettlementUnderWay) {
  put("a");
  Reader zombie(*store);
  ASSERT_EQ("a", zombie.names());
  const Reading last = zombie.session->exchange({}, {zombie.shards, 10, 1 << 20});
  ASSERT_EQ(1U, last.chunks.size());
  const Settlement settlement{
      .shard = 0, .term = zombie.leases.at(0).term, .window = last.chunks[0].window, .window_done = true, .count = 1};
  // Its transaction will lock the lease, and wait when it writes the cursor.
  Sql blocker = connect();
  blocker("SELECT pg_advisory_lock(42)");
  app("CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(42); RETURN "
      "NEW; "
      "END'; CREATE TRIGGER wait BEFORE INSERT ON waybill.cursor FOR EACH ROW EXECUTE FUNCTION wait()");
  auto exchange = std::async(std::launch::async, [&] {
    return zombie.session->exchange(std::span(&settlement, 1), {zombie.shards, 10, 1 << 20});
  });
  ASSERT_TRUE(eventually([&] { return app.number("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1; }));
  silence(zombie);
  const RelayIdentity relay{.id = "successor", .name = "successor"};
  const auto membership = store->join(relay);
  EXPECT_THAT(membership->take(zombie.leases), IsEmpty());
  blocker("SELECT pg_advisory_unlock(42)");
  EXPECT_THAT(exchange.get().lost, IsEmpty());
  const auto won = membership->take(zombie.leases);
  ASSERT_THAT(won, SizeIs(1));
  const auto session = store->connect(relay, "out");
  session->open(won, Start::beginning, false);
  for (const Chunk& chunk : session->exchange({}, {{0}, 10, 1 << 20}).chunks) EXPECT_THAT(chunk.events, IsEmpty());
}

TEST_F(FenceTest, TheHeartbeatIsNotHeldUpByTheLock) {
  Reader reader(*store);
  Sql open = connect();
  open("BEGIN");
  ASSERT_EQ("1", open(lock_of(reader)));
  const std::string out = "out";
  auto beat = std::async(std::launch::async, [&] { return reader.membership->beat(std::span(&out, 1)); });
  const bool in_time = beat.wait_for(5s) == std::future_status::ready;
  open("ROLLBACK");
  EXPECT_TRUE(in_time);
  EXPECT_THAT(beat.get().mine, SizeIs(1));
}

// Nor by whoever has the log locked; what was written meanwhile is found afterwards.
TEST_F(FenceTest, Row30_TheHeartbeatIsNotHeldUpByALockedLog) {
  Reader reader(*store);
  put("a");
  Sql open = connect();
  open("BEGIN; LOCK TABLE waybill.event IN ACCESS EXCLUSIVE MODE");
  const std::string out = "out";
  auto beat = std::async(std::launch::async, [&] { return reader.membership->beat(std::span(&out, 1)); });
  const bool in_time = beat.wait_for(5s) == std::future_status::ready;
  open("ROLLBACK");
  EXPECT_TRUE(in_time);
  EXPECT_THAT(beat.get().mine, SizeIs(1));
  EXPECT_TRUE(reader.membership->poll());
}

// With the term in a unique index a change of hands is an update of a key, which waits for FOR KEY SHARE; any other
// update of the lease does not.
TEST_F(FenceTest, OnlyAChangeOfHandsWaitsForTheLock) {
  Reader reader(*store);
  Sql open = connect();
  open("BEGIN");
  open(lock_of(reader));
  app("SET lock_timeout = '100ms'");
  EXPECT_EQ("", app.refusal("UPDATE waybill.lease SET since = clock_timestamp()"));
  EXPECT_EQ("55P03", app.refusal("UPDATE waybill.lease SET term = term + 1"));
  // The control: without the index nothing waits.
  open("ROLLBACK");
  app("ALTER TABLE waybill.lease DROP CONSTRAINT lease_destination_shard_term_key");
  open("BEGIN");
  open(lock_of(reader));
  EXPECT_EQ("", app.refusal("UPDATE waybill.lease SET term = term + 1"));
}

// Why it is done so: a condition on the term is no fence, and the statement that takes over sees a cursor of before.
TEST_F(FenceTest, WithoutALockOrInOneStatementItWouldNotHold) {
  Reader zombie(*store);
  const std::string insert =
      "INSERT INTO waybill.cursor (destination, shards, settled, hi, count) SELECT 'out', '{0}', '3:3:', '3', 11 FROM "
      "waybill.lease WHERE destination = 'out' AND shard = 0 AND term = " +
      std::to_string(zombie.leases.at(0).term);
  const std::string last = "(SELECT count FROM waybill.cursor WHERE destination = 'out' ORDER BY id DESC LIMIT 1)";
  Sql open = connect();
  open("BEGIN");
  open(insert);
  EXPECT_EQ("0", app("UPDATE waybill.lease SET term = term + 1 RETURNING " + last)) << "it does not wait";
  open("COMMIT");
  EXPECT_EQ("11", app("SELECT " + last)) << "the zombie's word came after the take-over";

  // With the lock the take-over waits; but what it reads itself, it reads as of before the wait.
  open("BEGIN");
  open("SELECT 1 FROM waybill.lease FOR KEY SHARE");
  open("INSERT INTO waybill.cursor (destination, shards, settled, hi, count) VALUES ('out', '{0}', '3:3:', '3', 12)");
  auto taken = std::async(std::launch::async, [&] {
    Sql successor(url);
    return successor("UPDATE waybill.lease SET term = term + 1 RETURNING " + last);
  });
  ASSERT_TRUE(eventually([&] { return app.number("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0; }));
  open("COMMIT");
  EXPECT_EQ("11", taken.get()) << "stale";
  EXPECT_EQ("12", app("SELECT " + last));
}

TEST_F(FenceTest, AReleasedLeaseIsFreeAtOnceAndItsTermGrows) {
  Reader first(*store);
  first.session->release(first.leases);
  Reader second(*store);
  ASSERT_THAT(second.leases, SizeIs(1));
  EXPECT_GT(second.leases[0].term, first.leases[0].term);
  put("a");
  EXPECT_THAT(first.session->exchange({}, {{0}, 10, 1 << 20}).lost, SizeIs(1));
}

TEST_F(FenceTest, ALeaseOfALivingRelayIsNotToBeHad) {
  Reader first(*store);
  const auto membership = store->join({.id = "other", .name = "other"});
  EXPECT_THAT(free_leases(*membership), IsEmpty());
  EXPECT_THAT(membership->take(first.leases), IsEmpty());
}

class ShardsTest : public PostgresTest {
 protected:
  // Another relay has the first of the shards by now; an event is put into one of the others.
  void lose_the_first(const Reader& reader) {
    app("UPDATE waybill.lease SET term = term + 1, owner = 'another' WHERE shard = " +
        std::to_string(reader.shards.front()));
    const std::string key =
        app("SELECT k::text FROM generate_series(1, 100) k WHERE waybill.shard_of('default', k::text, "
            "NULL, NULL, NULL) <> " +
            std::to_string(reader.shards.front()) + " LIMIT 1");
    put("a", key);
  }
  static std::string names_of(const Reading& reading) {
    std::string names;
    for (const Chunk& chunk : reading.chunks)
      for (const EventView& event : chunk.events) names += event.payload;
    return names;
  }
};

// A relay asks once for news; what the answer leaves out, it would not ask for again.
TEST_F(ShardsTest, TheLossOfOneShardHidesNothingOfTheOthers) {
  Reader reader(*store);
  lose_the_first(reader);
  const Reading reading = reader.session->exchange({}, {reader.shards, 10, 1 << 20});
  EXPECT_THAT(reading.lost, testing::ElementsAre(reader.shards.front()));
  EXPECT_EQ("\"a\"", names_of(reading));
}

TEST_F(ShardsTest, ASettlementOfALostShardHidesNothingOfTheOthers) {
  Reader reader(*store);
  const Reading first = reader.session->exchange({}, {reader.shards, 10, 1 << 20});
  ASSERT_FALSE(first.chunks.empty());
  lose_the_first(reader);
  const Settlement settlement{.shard = reader.shards.front(),
                              .term = reader.leases.front().term,
                              .window = first.chunks.front().window,
                              .window_done = true};
  const Reading reading = reader.session->exchange(std::span(&settlement, 1), {reader.shards, 10, 1 << 20});
  EXPECT_THAT(reading.lost, testing::ElementsAre(reader.shards.front()));
  EXPECT_EQ("\"a\"", names_of(reading));
}

class RaceTest : public PostgresTest {};

TEST_F(RaceTest, Row78_OfTwoThatTakeALeaseAtTheSameInstantOneWins) {
  constexpr int rounds = 100;
  constexpr std::size_t relays = 2;
  const std::string out = "out";
  std::array<std::vector<Lease>, relays> won;
  std::map<std::int32_t, std::int64_t> terms;
  int rounds_done = 0;
  std::barrier start(relays);
  std::barrier finish(relays, [&]() noexcept {
    std::map<std::int32_t, std::int64_t> owners;
    for (const auto& leases : won)
      for (const Lease& lease : leases) {
        ++owners[lease.shard];
        EXPECT_GT(lease.term, terms[lease.shard]) << "terms only grow";
        terms[lease.shard] = lease.term;
      }
    EXPECT_EQ(16U, owners.size());
    for (const auto& [shard, count] : owners) EXPECT_EQ(1, count) << "shard " << shard;
    ++rounds_done;
  });
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < relays; ++i)
    threads.emplace_back([&, i] {
      const RelayIdentity relay{.id = "relay" + std::to_string(i), .name = "r"};
      const auto membership = store->join(relay);
      const auto session = store->connect(relay, out);
      for (int round = 0; round < rounds; ++round) {
        const auto free = membership->beat(std::span(&out, 1)).free;
        start.arrive_and_wait();
        won[i] = membership->take(free);
        finish.arrive_and_wait();
        session->release(won[i]);
        start.arrive_and_wait();  // Both have given back.
      }
    });
  threads.clear();
  EXPECT_EQ(rounds, rounds_done);
}

}  // namespace
}  // namespace waybill
