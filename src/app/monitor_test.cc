#include "app/monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/testing.h"

namespace waybill::app {
namespace {

class MonitorTest : public testing::Test {
 protected:
  std::unique_ptr<Relay> relay() {
    auto relay = std::make_unique<Relay>(*store_, RelayOptions{.name = "r"}, Log{}, clock_);
    relay->add({.name = "out"}, sink_from([](const EventView&) { return Outcome::Kind::delivered; }));
    return relay;
  }
  void deliver(Relay& relay, int events) {
    const auto writer = store_->writer();
    for (int i = 0; i < events; ++i) {
      Event event;
      event.topic = "t";
      event.payload = "1";
      writer->enqueue(std::span(&event, 1));
    }
    writer->commit();
    relay.hint();
    for (int i = 0; i < 200; ++i) {
      relay.step();
      clock_.advance(std::chrono::milliseconds(10));
    }
  }

  ManualClock clock_;
  std::unique_ptr<Store> store_ = memory_store({}, clock_);
  Caretaker caretaker_{*store_, {}, {}, clock_};
  Figures figures_{*store_, clock_};
  Monitor monitor_{figures_};
};

TEST_F(MonitorTest, CountsGoOnOverAReload) {
  for (const std::uint64_t sum : {3U, 6U}) {
    const auto now = relay();
    monitor_.look_at(*now, caretaker_, {"out"});
    deliver(*now, 3);
    EXPECT_EQ(sum, monitor_.metrics().destinations.at("out").delivered);
    EXPECT_EQ(sum, monitor_.metrics().destinations.at("out").latency.count);
    EXPECT_GT(monitor_.metrics().destinations.at("out").leases, 0U);
    monitor_.look_away(*now);
    clock_.advance(std::chrono::seconds(10));
    EXPECT_EQ(sum, monitor_.metrics().destinations.at("out").delivered);
    EXPECT_EQ(0U, monitor_.metrics().destinations.at("out").leases);
    EXPECT_EQ(0, monitor_.metrics().destinations.at("out").lag.count()) << "nobody serves it now";
  }
}

TEST_F(MonitorTest, TheOneThatLeavesCountsUntilItIsGone) {
  const auto leaving = relay();
  monitor_.look_at(*leaving, caretaker_, {"out"});
  deliver(*leaving, 3);
  const std::size_t leases = monitor_.metrics().destinations.at("out").leases;
  EXPECT_GT(leases, 0U);
  const auto next = relay();
  monitor_.look_at(*next, caretaker_, {"out"});
  EXPECT_EQ(leases, monitor_.metrics().destinations.at("out").leases);
  EXPECT_EQ(3U, monitor_.metrics().destinations.at("out").delivered);
  monitor_.look_away(*leaving);
  EXPECT_EQ(0U, monitor_.metrics().destinations.at("out").leases);
  EXPECT_EQ(3U, monitor_.metrics().destinations.at("out").delivered);
  monitor_.look_away(*next);
}

TEST_F(MonitorTest, ExpiredEventsAreCounted) {
  const auto now = relay();
  monitor_.look_at(*now, caretaker_, {"out"});
  const auto writer = store_->writer();
  Event event;
  event.topic.assign(1, 't');
  event.payload = "1";
  event.expires_at = clock_.now() + std::chrono::seconds(1);
  writer->enqueue(std::span(&event, 1));
  writer->commit();
  clock_.advance(std::chrono::seconds(2));
  deliver(*now, 1);
  EXPECT_EQ(1U, monitor_.metrics().destinations.at("out").expired);
  monitor_.look_away(*now);
  EXPECT_EQ(1U, monitor_.metrics().destinations.at("out").expired);
}

TEST_F(MonitorTest, BetweenTwoRelaysNothingHangs) {
  EXPECT_TRUE(monitor_.health().alive());
}

}  // namespace
}  // namespace waybill::app
