// Through PgBouncer in transaction mode nothing may rest in a session: no setting, no prepared statement, no lock.

#include <atomic>
#include <mutex>

#include "waybill/relay.h"
#include "waybill/sink.h"

#include "postgres/postgres_fixture.h"
#include "support/store_wrapper.h"
#include "support/tmp_pgbouncer.h"

namespace waybill {
namespace {

class PoolerTest : public PostgresTest {
 protected:
  PoolerTest() {
    pooled =
        postgres_store({.url = pooled_url}, Log([this](LogLevel, std::string_view text, std::span<const LogField>) {
                         const std::lock_guard lock(mutex);
                         said += std::string(text) + '\n';
                       }));
  }

  static TmpPgBouncer& pooler() {
    static TmpPgBouncer one(TmpPostgres::shared().port());
    return one;
  }

  const std::string pooled_url = pooler().url(app("SELECT current_database()"));
  std::mutex mutex;
  std::string said;
  std::unique_ptr<Store> pooled;
};

TEST_F(PoolerTest, Row29_ARelayDrainsThroughItAndSaysThatItPolls) {
  Sql application(pooled_url);
  for (int i = 0; i < 300; ++i) put(application, std::to_string(i), std::to_string(i % 7));
  std::map<std::string, std::vector<int>> delivered;
  const auto sink = [&] {
    return sink_from([&](const EventView& event) {
      delivered[std::string(event.key)].push_back(
          std::stoi(std::string(event.payload.substr(1, event.payload.size() - 2))));
      return Outcome::Kind::delivered;
    });
  };
  for (int run = 0; run < 2; ++run) {  // The second one finds nothing left.
    Relay relay(*pooled, {.name = "test", .batch = 10}, {});
    relay.add({.name = "out"}, sink());
    relay.drain({});
  }
  std::size_t count = 0;
  for (const auto& [key, numbers] : delivered) {
    count += numbers.size();
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end())) << key;
  }
  EXPECT_EQ(300U, count);
  EXPECT_THAT(said, testing::HasSubstr("there is a pooler in between: the relay polls"));
  const auto status = pooled->inspector()->status();
  EXPECT_EQ(0, status.destinations.at(0).pending.value);
  EXPECT_EQ(300, status.events.value);
}

// Every command begins by asking for the schema. The next one finds the sessions of the one before.
TEST_F(PoolerTest, ProgramsStartThroughItOneAfterTheOther) {
  for (int start = 0; start < 4; ++start) {
    const auto program = postgres_store({.url = pooled_url});
    const SchemaState state = program->schema()->state();
    EXPECT_EQ(state.newest_known, state.version);
    EXPECT_TRUE(program->schema()->migrate().empty());
    const auto writer = program->writer();
    writer->enqueue(std::vector{make_event("a")});
    writer->commit();
    EXPECT_EQ(start + 1, program->inspector()->status().events.value);
  }
}

TEST_F(PoolerTest, NobodySleepsInAPooledSession) {
  const auto membership = pooled->join({.id = "relay", .name = "relay"});
  EXPECT_EQ(Membership::Sleep::never, membership->sleep());
  EXPECT_FALSE(membership->poll());
  put("a");
  EXPECT_TRUE(membership->poll());
  EXPECT_EQ(0, app.number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"));
}

// An event that comes after a silence waits for a tenth of it at most, so the polls become few.
TEST_F(PoolerTest, AnIdleRelayAsksLessAndLessOften) {
  std::atomic<int> polls = 0;
  WrappedStore counted(*pooled, [&](const StoreCall& call, const std::function<void()>& run) {
    if (call.name == "poll") ++polls;
    run();
  });
  Relay relay(counted, {.name = "test", .poll_busy = 5ms, .poll_idle = 100ms});
  relay.add({.name = "out"}, sink_from([](const EventView&) { return Outcome::Kind::delivered; }));
  std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  ASSERT_TRUE(eventually([&] { return polls > 20; }));
  std::this_thread::sleep_for(1'200ms);
  const int before = polls;
  std::this_thread::sleep_for(500ms);
  EXPECT_LE(polls - before, 7) << "as if there were traffic it would be a hundred";
  EXPECT_GE(polls - before, 2);
}

TEST_F(PoolerTest, Row29_LeavesNothingBehindInTheSessions) {
  const std::string settings =
      "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings WHERE source = 'session' AND name "
      "NOT IN ('client_encoding', 'application_name', 'DateStyle', 'TimeZone', 'standard_conforming_strings')";
  Reader reader(*pooled);
  put("a");
  EXPECT_EQ("a", reader.names());
  reader.settle_all();
  Sql other(pooled_url);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ("", other(settings));
    EXPECT_EQ("0", other("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''"));
  }
}

TEST_F(PoolerTest, Row29_ReadersTakeTurnsOverFewServerSessions) {
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < 5; ++i) readers.push_back(std::make_unique<Reader>(*pooled, "out" + std::to_string(i)));
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 20; ++i) put("a");
    for (const auto& reader : readers) {
      EXPECT_EQ(std::string(20, 'a'), reader->names(3));
      EXPECT_TRUE(reader->settle_all().empty());
    }
  }
}

TEST_F(PoolerTest, Row29_DoctorNamesIt) {
  bool named = false;
  for (const Finding& finding : pooled->inspector()->examine()) named = named || finding.what == "pooler";
  EXPECT_TRUE(named);
  for (const Finding& finding : store->inspector()->examine()) EXPECT_NE("pooler", finding.what);
}

}  // namespace
}  // namespace waybill
