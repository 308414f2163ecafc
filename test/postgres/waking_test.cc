// Who tells whom that there is something to do (design: "Waking up").

#include <atomic>
#include <mutex>

#include "waybill/relay.h"
#include "waybill/sink.h"

#include "base/waker.h"
#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

using Told = Membership::Told;

// Counts what is told on a channel.
class Listener {
 public:
  explicit Listener(const std::string& url, std::string channel = "waybill_news")
      : sql_(url), teller_(url), channel_(std::move(channel)) {
    sql_("LISTEN " + channel_);
  }

  // How many notifications were committed since the last call.
  int heard() {
    teller_("NOTIFY " + channel_ + ", 'end'");
    int count = 0;
    while (true) {
      sql_("SELECT 1");
      while (PGnotify* notification = PQnotifies(sql_.raw())) {
        const bool end = std::string(notification->extra) == "end";
        PQfreemem(notification);
        if (end) return count;
        ++count;
      }
    }
  }

 private:
  Sql sql_;
  Sql teller_;
  const std::string channel_;
};

class WakingTest : public PostgresTest {
 protected:
  std::unique_ptr<Membership> join(const std::string& id = "relay", Log log = {}) {
    return postgres_store({.url = url}, std::move(log))->join({.id = id, .name = id});
  }
  // As the keeper does it: asks to be told, then looks once more.
  static bool fall_asleep(Membership& membership) {
    membership.poll();
    return membership.sleep() == Membership::Sleep::told && !membership.poll();
  }
  Told told(Membership& membership, std::chrono::milliseconds patience = 5s) {
    Told told = Told::nothing;
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (told == Told::nothing && std::chrono::steady_clock::now() < deadline)
      told = membership.wait(waker, deadline);
    return told;
  }
  std::int64_t sleepers() {
    return app.number(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())");
  }

  Waker waker;
};

TEST_F(WakingTest, ASleepingRelayIsToldAndAnAwakeOneNeedsNoTelling) {
  Listener listener(url);
  const auto relay = join();
  put("a");
  EXPECT_EQ(0, listener.heard());
  ASSERT_TRUE(fall_asleep(*relay));
  put("b");
  EXPECT_EQ(1, listener.heard());
  EXPECT_EQ(Told::news, told(*relay));
  relay->rise();
  for (int i = 0; i < 10; ++i) put("c");
  EXPECT_EQ(0, listener.heard());
}

// Everybody who can connect can notify, as often as he likes: it costs the relay a few heartbeats.
TEST_F(WakingTest, AStrangersNotificationsAreNoStorm) {
  app("CREATE SEQUENCE beats; CREATE FUNCTION count_beat() RETURNS trigger LANGUAGE plpgsql AS "
      "$$ BEGIN PERFORM nextval('public.beats'); RETURN NULL; END $$; "
      "CREATE TRIGGER count_beat AFTER INSERT OR UPDATE ON waybill.relay EXECUTE FUNCTION count_beat()");
  Relay relay(*store, {.name = "test"});
  relay.add({.name = "out"}, sink_from([](const EventView&) { return Outcome::Kind::delivered; }));
  std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  ASSERT_TRUE(eventually([&] { return sleepers() == 1; }));
  app("DO $$ BEGIN CREATE USER stranger; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
  Sql stranger(server.url(app("SELECT current_database()"), "stranger"));
  const std::int64_t before = app.number("SELECT last_value FROM beats");
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 400; ++i) stranger("NOTIFY waybill_leases");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const std::int64_t beats = app.number("SELECT last_value FROM beats") - before;
  EXPECT_GT(beats, 0);
  EXPECT_LE(static_cast<double>(beats), took / 50ms + took / 1s + 5);  // 400 without a limit
}

TEST_F(WakingTest, OneWhoIsAwakeIsToldNothing) {
  const auto relay = join();
  app("NOTIFY waybill_news");
  EXPECT_EQ(Told::nothing, told(*relay, 50ms));
  ASSERT_TRUE(fall_asleep(*relay));
  app("NOTIFY waybill_news");
  EXPECT_EQ(Told::news, told(*relay));
  relay->rise();
  app("NOTIFY waybill_news");
  EXPECT_EQ(Told::nothing, told(*relay, 50ms));
}

TEST_F(WakingTest, Row27_ATransactionOfManyEventsTellsOnce) {
  Listener listener(url);
  const auto relay = join();
  ASSERT_TRUE(fall_asleep(*relay));
  app("BEGIN");
  for (int i = 0; i < 50; ++i) put("a");
  app("COMMIT");
  EXPECT_EQ(1, listener.heard());
}

TEST_F(WakingTest, AnotherDatabasesSleeperIsNotOurs) {
  const std::string other_url = server.fresh_database();
  const auto other = postgres_store({.url = other_url});
  other->schema()->migrate();
  const auto sleeper = other->join({.id = "other", .name = "other"});
  ASSERT_EQ(Membership::Sleep::told, sleeper->sleep());
  Listener listener(url);
  put("a");
  EXPECT_EQ(0, listener.heard());
}

// A relay that asked for the lock and waited for it would make every producer behind it notify.
TEST_F(WakingTest, Row24_ALongProducerTransactionCausesNoStorm) {
  Sql long_one = connect();
  long_one("BEGIN");
  put(long_one, "long");
  Listener listener(url);
  const auto relay = join();
  for (int i = 0; i < 20; ++i) {
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(Membership::Sleep::not_now, relay->sleep());
    EXPECT_LT(std::chrono::steady_clock::now() - before, 2s);
    put("a");
  }
  EXPECT_EQ(0, listener.heard());
  long_one("COMMIT");
  EXPECT_TRUE(fall_asleep(*relay) || fall_asleep(*relay));
}

TEST_F(WakingTest, ASecondSleeperKeepsNobodyNotifying) {
  Listener listener(url);
  const auto first = join("first");
  const auto second = join("second");
  ASSERT_TRUE(fall_asleep(*first));
  ASSERT_TRUE(fall_asleep(*second)) << "where another sleeps already, one may sleep too";
  EXPECT_EQ(1, sleepers());
  put("a");
  EXPECT_EQ(Told::news, told(*first));
  EXPECT_EQ(Told::news, told(*second));
  first->rise();
  listener.heard();
  for (int i = 0; i < 10; ++i) put("b");
  EXPECT_EQ(0, listener.heard()) << "the second one sleeps, but the log is not idle";
  EXPECT_TRUE(second->poll());
  second->rise();
}

TEST_F(WakingTest, ARelayThatDiesInItsSleepFreesTheLock) {
  auto relay = join();
  ASSERT_TRUE(fall_asleep(*relay));
  ASSERT_EQ(1, sleepers());
  relay.reset();
  EXPECT_TRUE(eventually([&] { return sleepers() == 0; }));
  auto other = join("other");
  ASSERT_TRUE(fall_asleep(*other));
  app("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'waybill keeper'");
  EXPECT_TRUE(eventually([&] { return sleepers() == 0; }));
  EXPECT_THROW(told(*other), Error);
}

// One that is stopped in its sleep must not keep the producers notifying for ever; but the server's limit for a silent
// session must leave a living relay, which says something only every fifth of its lease, alone.
TEST_F(WakingTest, ASilentSessionIsEndedButNotThatOfALivingRelay) {
  const auto last_words = [&] {
    return app(
        "SELECT substring(query FROM 'idle_session_timeout = .*') FROM pg_stat_activity WHERE application_name = "
        "'waybill keeper'");
  };
  {
    const auto relay = store->join({.id = "short", .name = "short", .lease = 5s});
    EXPECT_EQ("idle_session_timeout = 15000", last_words());
  }
  ASSERT_TRUE(eventually([&] { return last_words().empty(); }));
  const auto relay = store->join({.id = "long", .name = "long", .lease = 10min});
  EXPECT_EQ("idle_session_timeout = 600000", last_words());
}

TEST_F(WakingTest, LeavingTellsTheOthers) {
  Listener listener(url, "waybill_leases");
  Reader reader(*store);
  const auto other = join("other");
  reader.leave();
  EXPECT_GE(listener.heard(), 1);
  EXPECT_EQ(Told::leases, told(*other));
}

// Deliveries of a relay at work, counted.
class RelayWakingTest : public WakingTest {
 protected:
  std::unique_ptr<Sink> counting() {
    return sink_from([this](const EventView&) {
      ++delivered;
      return Outcome::Kind::delivered;
    });
  }
  std::atomic<int> delivered = 0;
};

// Neither its heartbeat nor its poll would find the event in time.
TEST_F(RelayWakingTest, ARelayAsleepDeliversWhenItIsTold) {
  Relay relay(*store, {.name = "test", .poll_busy = 60s, .poll_idle = 60s, .lease = 10min});
  relay.add({.name = "out"}, counting());
  std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  ASSERT_TRUE(eventually([&] { return sleepers() == 1; }));
  for (int i = 1; i <= 3; ++i) {
    put("a");
    EXPECT_TRUE(eventually([&] { return delivered == i; }, 5s)) << i;
    ASSERT_TRUE(eventually([&] { return sleepers() == 1; })) << "it goes to sleep again";
  }
}

// The one that held the lock is gone, so nobody tells any more: the poll is the guarantee.
TEST_F(RelayWakingTest, Row27_ARelayAsleepBesideOneThatDiedPolls) {
  auto other = join("other");
  ASSERT_TRUE(fall_asleep(*other));
  Relay relay(*store, {.name = "test", .poll_idle = 1s, .lease = 10min});
  relay.add({.name = "out"}, counting());
  std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  ASSERT_TRUE(eventually([&] {
    return app.number(
               "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waybill keeper' AND state = "
               "'idle' AND state_change < clock_timestamp() - interval '300 ms'") == 2;
  })) << "it does not sleep";
  other.reset();
  ASSERT_TRUE(eventually([&] { return sleepers() == 0; }));
  put("a");
  EXPECT_TRUE(eventually([&] { return delivered == 1; }, 5s));
}

// A transaction that has notified cannot be prepared: so nobody asks to be told.
TEST(PreparedTransactions, Row25_AreNotBrokenByUs) {
  TmpPostgres server(false, {"max_prepared_transactions=10"});
  const std::string url = server.fresh_database();
  std::mutex mutex;
  std::string said;
  const auto store = postgres_store({.url = url}, Log([&](LogLevel, std::string_view text, std::span<const LogField>) {
                                      const std::lock_guard lock(mutex);
                                      said += std::string(text) + '\n';
                                    }));
  store->schema()->migrate();
  const auto membership = store->join({.id = "relay", .name = "relay"});
  EXPECT_THAT(said, testing::HasSubstr("max_prepared_transactions is not 0: the relay polls"));
  EXPECT_EQ(Membership::Sleep::never, membership->sleep());
  Sql app(url);
  app("BEGIN");
  enqueue(app.raw(), make_event("a"));
  app("PREPARE TRANSACTION 'p'");
  EXPECT_FALSE(membership->poll());
  Reader reader(*store);
  EXPECT_EQ("", reader.names());
  enqueue(app.raw(), make_event("b"));
  EXPECT_EQ("b", reader.names());
  EXPECT_TRUE(membership->poll());
  app("COMMIT PREPARED 'p'");
  EXPECT_TRUE(membership->poll());
  EXPECT_EQ("a", reader.names());

  // The control: with a sleeper (as if the setting were 0) the same fails.
  Sql sleeper(url);
  sleeper("SELECT pg_advisory_lock(hashtextextended('waybill wake', 0))");
  app("BEGIN");
  enqueue(app.raw(), make_event("c"));
  EXPECT_EQ("0A000", app.refusal("PREPARE TRANSACTION 'q'"));
}

}  // namespace
}  // namespace waybill
