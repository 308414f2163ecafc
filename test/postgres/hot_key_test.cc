// One key fails with thousands of events behind it, and recovers: with real threads, over a change of relays. What
// 300,000 of them cost is measured by `make bench-failures`.

#include <atomic>
#include <mutex>

#include "waybill/relay.h"
#include "waybill/sink.h"

#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

constexpr int events = 8'000;  // Every second one is of the hot key.

class HotKeyTest : public PostgresTest {
 protected:
  HotKeyTest() : PostgresTest(4) {}

  std::unique_ptr<Sink> sink() {
    return sink_from([this](const EventView& event) {
      const bool hot = event.key == "hot";
      if (hot && refused_) return Outcome::Kind::retry;
      const std::lock_guard lock(mutex_);
      (hot ? hot_ : others_).push_back(std::stoi(std::string(event.payload)));
      return Outcome::Kind::delivered;
    });
  }
  std::unique_ptr<Relay> relay() {
    auto relay = std::make_unique<Relay>(*store, RelayOptions{});
    relay->add({.name = "out", .retry = {.attempts = 0, .first_delay = 20ms, .max_delay = 20ms}}, sink());
    return relay;
  }
  std::size_t delivered(const std::vector<int>& list) {
    const std::lock_guard lock(mutex_);
    return list.size();
  }
  int waiting() { return static_cast<int>(app.number("SELECT count(*) FROM waybill.undelivered")); }

  std::atomic<bool> refused_ = true;
  std::mutex mutex_;
  std::vector<int> hot_;     // guarded by mutex_
  std::vector<int> others_;  // guarded by mutex_
};

TEST_F(HotKeyTest, Row86_OthersFlowAndItsOrderIsKeptOverAChangeOfRelays) {
  app("INSERT INTO waybill.event (topic, key, payload) SELECT 't', CASE WHEN n % 2 = 0 THEN 'hot' ELSE 'k' || n % 100 "
      "END, to_json(n) FROM generate_series(1, " +
      std::to_string(events) + ") n");
  {
    const auto first = relay();
    const std::jthread runner([&](const std::stop_token& stop) { first->run(stop); });
    ASSERT_TRUE(eventually([&] { return delivered(others_) == events / 2; }, 60s));
    ASSERT_TRUE(eventually([&] { return waiting() == events / 2; }, 60s));
  }
  EXPECT_EQ(0U, delivered(hot_));
  EXPECT_EQ(events / 2, store->inspector()->blocked_keys("out", 10).at(0).events.value);

  const auto second = relay();
  const std::jthread runner([&](const std::stop_token& stop) { second->run(stop); });
  app("INSERT INTO waybill.event (topic, key, payload) SELECT 't', 'hot', to_json(n) FROM generate_series(" +
      std::to_string(events + 2) + ", " + std::to_string(events + 1'000) + ", 2) n");
  refused_ = false;
  ASSERT_TRUE(eventually([&] { return delivered(hot_) >= events / 2 + 500; }, 60s));
  ASSERT_TRUE(eventually([&] { return waiting() == 0; }, 60s));
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(events / 2U + 500, hot_.size());
  for (std::size_t i = 0; i < hot_.size(); ++i) ASSERT_EQ(2 * (static_cast<int>(i) + 1), hot_[i]);
}

}  // namespace
}  // namespace waybill
