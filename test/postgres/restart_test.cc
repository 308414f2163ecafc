// A relay at work while its server is restarted, crashes, or throws it out.

#include "waybill/relay.h"

#include "postgres/deliveries.h"
#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

constexpr int keys = 20;

class RestartTest : public PostgresTest {
 protected:
  RestartTest() : PostgresTest(16, durable_server()) { relay.add({.name = "out"}, deliveries.sink()); }
  static TmpPostgres& durable_server() {
    static TmpPostgres server(true);
    return server;
  }

  // An application that goes on whatever becomes of the server.
  void write(const std::stop_token& stop) {
    int number = 0;
    while (!stop.stop_requested()) {
      try {
        Sql sql(url);
        while (!stop.stop_requested()) {
          sql("BEGIN");
          for (int key = 0; key < keys; ++key) put(sql, std::to_string(++number), std::to_string(key));
          sql("COMMIT");
          std::this_thread::sleep_for(1ms);
        }
      } catch (const std::exception&) {
        std::this_thread::sleep_for(10ms);
      }
    }
  }

  // What the log holds, by key, in order.
  std::map<std::string, std::vector<int>> log() {
    Sql sql(url);
    std::map<std::string, std::vector<int>> events;
    for (const std::string& row :
         sql.column("SELECT key || ' ' || (payload #>> '{}') FROM waybill.event ORDER BY seq")) {
      const auto space = row.find(' ');
      events[row.substr(0, space)].push_back(std::stoi(row.substr(space + 1)));
    }
    return events;
  }

  void everything_arrives() {
    const auto expected = log();
    std::size_t count = 0;
    for (const auto& [key, numbers] : expected) count += numbers.size();
    EXPECT_TRUE(eventually([&] { return deliveries.distinct() >= count; }, 20s))
        << deliveries.distinct() << " of " << count;
    EXPECT_EQ(expected, deliveries.firsts());
    EXPECT_EQ(0, deliveries.out_of_order());
    RecordProperty("events", static_cast<int>(count));
    RecordProperty("deliveries", deliveries.total());
  }

  void more_arrives() {
    const std::size_t before = deliveries.distinct();
    EXPECT_TRUE(eventually([&] { return deliveries.distinct() > before + 200; }, 20s));
  }

  Deliveries deliveries;
  Relay relay{*store, {.name = "test", .lease = 2s}};
};

TEST_F(RestartTest, Row15_20_NothingIsLostOverRestartsAndCrashes) {
  std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  {
    const std::jthread writing([&](const std::stop_token& stop) { write(stop); });
    more_arrives();
    server.restart();
    more_arrives();
    server.crash();
    server.start();
    more_arrives();
    server.restart();
    more_arrives();
    server.crash();
    server.start();
    more_arrives();
  }
  everything_arrives();
}

TEST_F(RestartTest, Row28_NothingIsLostWhenSessionsAreEnded) {
  std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  {
    const std::jthread writing([&](const std::stop_token& stop) { write(stop); });
    for (int i = 0; i < 8; ++i) {
      more_arrives();
      app("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'waybill %' AND random() "
          "< 0.7");
    }
  }
  everything_arrives();
}

// An event that was committed while the keeper had no connection is nobody's news but is there.
TEST_F(RestartTest, Row15_WhatWasCommittedWhileTheKeeperWasAwayIsFound) {
  std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  put("1", "a");
  ASSERT_TRUE(eventually([&] { return deliveries.distinct() == 1; }));
  const auto keeper = [&](const std::string& what) {
    return app.number("SELECT count(" + what + ") FROM pg_stat_activity WHERE application_name = 'waybill keeper'");
  };
  ASSERT_TRUE(eventually([&] { return keeper("*") == 1; }));
  app("BEGIN");
  put("2", "a");
  keeper("pg_terminate_backend(pid)");
  app("COMMIT");
  EXPECT_TRUE(eventually([&] { return deliveries.distinct() == 2; }, 5s));
}

}  // namespace
}  // namespace waybill
