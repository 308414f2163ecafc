// Several relays over one log: take-over, hand-over, and shares that change while events are under way.

#include <optional>

#include "waybill/relay.h"
#include "waybill/testing.h"

#include "postgres/deliveries.h"
#include "postgres/postgres_fixture.h"
#include "support/wrong_clock.h"

namespace waybill {
namespace {

class RelaysTest : public PostgresTest {
 protected:
  // A relay at work on a thread of its own; stopped cleanly when it goes.
  class Running {
   public:
    Running(Store& store, Deliveries& deliveries, RelayOptions options, const Clock& clock = system_clock())
        : relay_(store, std::move(options), Log{}, clock) {
      relay_.add({.name = "out"}, deliveries.sink());
      thread_ = std::jthread([this](const std::stop_token& stop) { relay_.run(stop); });
    }
    std::uint64_t delivered() const { return relay_.counts("out").delivered; }

   private:
    Relay relay_;
    std::jthread thread_;
  };

  std::unique_ptr<Running> start() { return std::make_unique<Running>(*store, deliveries, options); }

  std::int64_t leases_of_living() {
    return app.number("SELECT count(DISTINCT l.owner) FROM waybill.lease l JOIN waybill.relay r ON r.id = l.owner");
  }

  const RelayOptions options{.name = "test", .lease = 1s};
  // Where no lease is to end by itself, however busy the machine is.
  const RelayOptions patient{.name = "test", .lease = 10s};
  Deliveries deliveries;
};

// One that stands still, as if stopped: it holds every lease and has an event under way.
TEST_F(RelaysTest, Row73_78_OneThatStandsStillIsReplacedAndWritesNothingAfterwards) {
  ScriptedSink::Script script;
  Relay still(*store, options);
  still.add({.name = "out"}, std::make_unique<ScriptedSink>(script));
  script.answers = false;
  put("1");
  ASSERT_TRUE(eventually([&] { return still.step() == 0 && script.attempted.size() == 1; }));

  const auto stopped = std::chrono::steady_clock::now();
  auto other = start();
  put("2");
  ASSERT_TRUE(eventually([&] { return deliveries.distinct() == 2; }));
  // A lease and a second; and as much again for a machine that has other things to do.
  EXPECT_LT(std::chrono::steady_clock::now() - stopped, 2 * (options.lease + 1s));
  ASSERT_TRUE(eventually([&] { return app.number("SELECT max(count) FROM waybill.cursor") > 0; }));

  const auto owner = app("SELECT DISTINCT owner FROM waybill.lease");
  script.answers = true;
  for (int i = 0; i < 50; ++i) still.step();
  EXPECT_EQ(1U, script.attempted.size()) << "it must not publish what is not its own any more";
  EXPECT_EQ(0, app.number("SELECT count(*) FROM waybill.lease WHERE owner = '" + owner + "' AND term < 2"));
  put("3");
  ASSERT_TRUE(eventually([&] {
    still.step();
    return deliveries.distinct() + script.attempted.size() - 1 == 3;
  }));
  other.reset();
  ASSERT_TRUE(
      eventually([&] { return still.step() == 0 && store->inspector()->status().destinations[0].pending.value == 0; }));
  EXPECT_THAT(deliveries.total() + static_cast<int>(script.attempted.size()), 4) << "only the first came twice";
}

// 78: all at the same instant, again and again; some are still there from before.
TEST_F(RelaysTest, Row78_OfManyThatStartAtTheSameInstantEachShardHasOne) {
  int written = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Running>> relays(4);
    {
      std::vector<std::jthread> starting;
      for (auto& relay : relays)
        starting.emplace_back([&] { relay = std::make_unique<Running>(*store, deliveries, patient); });
    }
    for (int i = 0; i < 100; ++i, ++written) put(std::to_string(written), std::to_string(written % 20));
    ASSERT_TRUE(eventually([&] { return static_cast<int>(deliveries.distinct()) == written; }, 30s)) << round;
    ASSERT_TRUE(eventually([&] { return leases_of_living() == 4; }, 30s)) << round;
  }
  EXPECT_EQ(written, deliveries.total()) << "nobody shared a shard";
  EXPECT_EQ(0, deliveries.out_of_order());
}

// 76: one relay's clock is wrong; leases are counted by the server's.
TEST_F(RelaysTest, Row76_AWrongWallClockTakesNothingAwayFromAnybody) {
  const WrongClock ahead(1h);
  const WrongClock behind(-1h);
  const Running right(*store, deliveries, patient);
  const Running early(*store, deliveries, patient, ahead);
  const Running late(*store, deliveries, patient, behind);
  ASSERT_TRUE(eventually([&] { return leases_of_living() == 3; }, 30s));
  const std::string terms = "SELECT string_agg(term::text, ',' ORDER BY shard) FROM waybill.lease";
  std::string last;
  const auto settled = [&] {
    std::this_thread::sleep_for(500ms);
    const std::string now = app(terms);
    return std::exchange(last, now) == now;
  };
  ASSERT_TRUE(eventually(settled, 30s));
  const std::string before = app(terms);
  int written = 0;
  for (; written < 300; ++written) {
    put(std::to_string(written), std::to_string(written % 20));
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_TRUE(eventually([&] { return static_cast<int>(deliveries.distinct()) == written; }, 30s));
  EXPECT_EQ(written, deliveries.total());
  EXPECT_EQ(0, deliveries.out_of_order());
  EXPECT_EQ(before, app(terms)) << "no lease has changed hands";
}

TEST_F(RelaysTest, Row79_AHandOverIsImmediateAndSendsNothingAgain) {
  for (int i = 0; i < 500; ++i) put(std::to_string(i), std::to_string(i % 20));
  auto first = start();
  ASSERT_TRUE(eventually([&] { return deliveries.distinct() > 0; }));
  first.reset();
  EXPECT_EQ(0, app.number("SELECT count(*) FROM waybill.lease WHERE owner IS NOT NULL"));
  const auto second = start();
  ASSERT_TRUE(eventually([&] { return deliveries.distinct() == 500; }));
  EXPECT_EQ(500, deliveries.total());
  EXPECT_EQ(0, deliveries.out_of_order());
}

TEST_F(RelaysTest, Row79_SharesChangeHandsUnderLoadWithoutADoubleOrAMixUp) {
  std::jthread writing([&](const std::stop_token& stop) {
    Sql sql(url);
    for (int number = 0; !stop.stop_requested();) {
      sql("BEGIN");
      for (int key = 0; key < 20; ++key) put(sql, std::to_string(++number), std::to_string(key));
      sql("COMMIT");
      std::this_thread::sleep_for(1ms);
    }
  });
  std::vector<std::unique_ptr<Running>> relays;
  for (const std::size_t wanted : {1U, 3U, 1U, 4U, 2U}) {
    while (relays.size() < wanted) relays.push_back(start());
    while (relays.size() > wanted) relays.erase(relays.begin());  // The oldest goes.
    ASSERT_TRUE(eventually([&] { return leases_of_living() == static_cast<std::int64_t>(wanted); })) << wanted;
    std::vector<std::uint64_t> before;
    for (const auto& relay : relays) before.push_back(relay->delivered());
    EXPECT_TRUE(eventually([&] {
      for (std::size_t i = 0; i < relays.size(); ++i)
        if (relays[i]->delivered() < before[i] + 20) return false;
      return true;
    })) << "all of "
        << wanted << " have something to do";
  }
  writing.request_stop();
  writing.join();
  const auto written = app.number("SELECT count(*) FROM waybill.event");
  EXPECT_TRUE(eventually([&] { return static_cast<std::int64_t>(deliveries.distinct()) == written; }));
  EXPECT_EQ(written, deliveries.total());
  EXPECT_EQ(0, deliveries.out_of_order());
}

// Whatever an administrator has made the default of the database or the user.
TEST_F(RelaysTest, Row22_WorkUnderTheDatabasesOddDefaults) {
  const std::string name = app("SELECT current_database()");
  for (const char* setting : {"default_transaction_isolation = 'serializable'", "synchronous_commit = off",
                              "DateStyle = 'German'", "TimeZone = 'Asia/Kathmandu'", "bytea_output = 'escape'",
                              "search_path = 'public'", "standard_conforming_strings = off", "extra_float_digits = 0",
                              "IntervalStyle = 'iso_8601'", "client_encoding = 'LATIN1'", "lock_timeout = '3s'"})
    app("ALTER DATABASE " + name + " SET " + setting);
  app = connect();
  Event event = make_event("1");
  event.occurred_at = Time(1'700'000'000'123'456us);
  enqueue(app.raw(), event);
  for (int i = 2; i <= 40; ++i) put(std::to_string(i));
  const auto first = start();
  const auto second = start();
  EXPECT_TRUE(eventually([&] { return deliveries.distinct() == 40; }));
  EXPECT_EQ(0, deliveries.out_of_order());
  const auto list =
      store->inspector()->list({.since = system_clock().now() - 1h, .until = system_clock().now() + 1h, .limit = 100});
  ASSERT_EQ(40U, list.events.size());
  EXPECT_EQ(*event.occurred_at, list.events.back().occurred_at);
}

}  // namespace
}  // namespace waybill
