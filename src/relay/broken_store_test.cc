#include <map>
#include <thread>

#include <gtest/gtest.h>

#include "waybill/relay.h"
#include "waybill/testing.h"

#include "support/store_wrapper.h"

// The connection to the store breaks at the first, the second, … call, until a run comes through without a break: each
// time everything is delivered, in order per key, and what comes twice comes under the same name.
namespace waybill {
namespace {

using namespace std::chrono_literals;

constexpr int events = 30;
constexpr int keys = 4;

void enqueue(Store& store) {
  const auto writer = store.writer();
  for (int i = 0; i < events; ++i) {
    Event event;
    event.topic = "t";
    event.key = std::to_string(i % keys);
    event.payload = std::to_string(i);
    writer->enqueue(std::span(&event, 1));
  }
  writer->commit();
}

void expect_all_in_order(const std::vector<std::string>& delivered, const std::string& when,
                         const std::set<int>& excused = {}) {
  std::map<int, int> newest_of_key;
  std::set<int> seen = excused;
  for (const std::string& name : delivered) {
    const int number = std::stoi(name);
    if (!seen.insert(number).second) continue;
    const auto newest = newest_of_key.find(number % keys);
    EXPECT_TRUE(newest == newest_of_key.end() || number > newest->second) << when;
    newest_of_key[number % keys] = number;
  }
  EXPECT_EQ(static_cast<std::size_t>(events), seen.size()) << when;
}

class BrokenStore : public testing::TestWithParam<BreaksAt::Moment> {};

TEST_P(BrokenStore, Row8_SteppedRelayDeliversEverythingWhateverCallBreaks) {
  for (int call = 1;; ++call) {
    ManualClock clock;
    const auto memory = memory_store({.shards = 2}, clock);
    enqueue(*memory);
    BreaksAt store(*memory, call, GetParam());
    ScriptedSink::Script script;
    Relay relay(store, RelayOptions{.batch = 5}, Log{}, clock);
    relay.add({.name = "out"}, std::make_unique<ScriptedSink>(script));
    for (int i = 0; i < 1'000; ++i) {
      relay.step();
      clock.advance(10ms);
    }
    expect_all_in_order(script.delivered, "call " + std::to_string(call));
    EXPECT_EQ(0, memory->inspector()->status().destinations.at(0).pending.value) << "call " << call;
    if (!store.broke()) break;
    ASSERT_LT(call, 10'000);
    if (call > 60) call += 97;  // The first calls are each of their own kind, the later ones repeat.
  }
}

// The same with events that fail, are given up, take their time or are announced first. What is given up is excused.
TEST_P(BrokenStore, Row8_9_FailingEventsKeepTheirOrderWhateverCallBreaks) {
  using Kind = Outcome::Kind;
  for (const OnUnknown on_unknown : {OnUnknown::resend, OnUnknown::hold}) {
    for (int call = 1;; ++call) {
      ManualClock clock;
      const auto memory = memory_store({.shards = 2}, clock);
      enqueue(*memory);
      BreaksAt store(*memory, call, GetParam());
      ScriptedSink::Script script;
      script.next["0"] = {Kind::retry, Kind::retry};
      script.next["4"] = {Kind::rejected, Kind::rejected, Kind::rejected};
      script.next["5"] = {Kind::retry, Kind::rejected, Kind::rejected, Kind::rejected};
      script.next["10"] = {Kind::retry, Kind::unavailable, Kind::retry};
      script.stuck = {"3"};
      Relay relay(store, RelayOptions{.batch = 5}, Log{}, clock);
      relay.add({.name = "out", .retry = {.first_delay = 300ms}, .on_unknown = on_unknown},
                std::make_unique<ScriptedSink>(script));
      for (int i = 0; i < 2'000; ++i) {
        if (i == 400) script.stuck.clear();
        relay.step();
        clock.advance(10ms);
      }
      const std::string when = "call " + std::to_string(call);
      std::set<int> excused;
      for (const auto& view : memory->inspector()->undelivered({}).events) {
        const bool held = on_unknown == OnUnknown::hold && view.row.standing == Standing::held;
        EXPECT_TRUE(held || view.row.standing == Standing::dead) << when << " event " << view.event.payload;
        excused.insert(std::stoi(std::string(view.event.payload)));
      }
      if (on_unknown == OnUnknown::resend) {
        EXPECT_EQ((std::set{4, 5}), excused) << when;
      } else {  // At most once.
        EXPECT_EQ(script.delivered.size(), std::set(script.delivered.begin(), script.delivered.end()).size()) << when;
      }
      expect_all_in_order(script.delivered, when, excused);
      EXPECT_EQ(0, memory->inspector()->status().destinations.at(0).pending.value) << when;
      if (!store.broke()) break;
      ASSERT_LT(call, 10'000);
      if (call > 100) call += 97;
    }
  }
}

TEST_P(BrokenStore, Row8_RunningRelayDeliversEverythingWhateverCallBreaks) {
  for (int call = 1; call <= 25; ++call) {
    const auto memory = memory_store({.shards = 2});
    enqueue(*memory);
    BreaksAt store(*memory, call, GetParam());
    ScriptedSink::Script script;
    Relay relay(store, RelayOptions{.batch = 5, .grace = 1s});
    relay.add({.name = "out"}, std::make_unique<ScriptedSink>(script));
    relay.drain({});
    expect_all_in_order(script.delivered, "call " + std::to_string(call));
  }
}

INSTANTIATE_TEST_SUITE_P(Moments, BrokenStore, testing::Values(BreaksAt::Moment::before, BreaksAt::Moment::after),
                         [](const auto& made) { return made.param == BreaksAt::Moment::before ? "before" : "after"; });

}  // namespace
}  // namespace waybill
