// Relays that die: of an event, or of something else. Time is moved by hand.
#include "relay/trial.h"

#include <random>
#include <set>

#include "relay/failure_test.h"

namespace waybill {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Trial, NoTwoTrialsThatCountEndAtTheSameAge) {
  for (std::int32_t crashes = 1; crashes < trial::doublings_max; ++crashes) {
    const auto earliest = trial::control(crashes);
    EXPECT_TRUE(trial::counts(crashes, earliest));
    EXPECT_TRUE(trial::counts(crashes, 2 * earliest - 1ns));
    EXPECT_FALSE(trial::counts(crashes, 2 * earliest));
    EXPECT_LE(2 * earliest + trial::length(crashes), trial::control(crashes + 2));
  }
  EXPECT_EQ(trial::control(1'000'000), trial::control(trial::doublings_max + 1));
}

// Answers after a time.
class SlowSink final : public Sink {
 public:
  struct Script {
    std::chrono::milliseconds takes{};
    std::string poison{};                     // This one kills the relay
    std::chrono::milliseconds kills_after{};  // so long after it was sent.
    std::optional<Steady> dies_at{};
    std::set<std::string> delivered{};
  };
  SlowSink(Script& script, const Clock& clock) : script_(script), clock_(clock) {}

  void submit(const EventView& event, std::uint64_t ticket) override {
    under_way_.push_back({std::string(event.payload), ticket, clock_.steady() + script_.takes});
    if (event.payload == script_.poison) script_.dies_at = clock_.steady() + script_.kills_after;
  }
  void collect(std::vector<Outcome>& outcomes, Steady /*deadline*/) override {
    std::erase_if(under_way_, [&](const UnderWay& each) {
      if (each.until > clock_.steady() || each.name == script_.poison) return false;
      script_.delivered.insert(each.name);
      outcomes.push_back({.ticket = each.ticket});
      return true;
    });
  }

 private:
  struct UnderWay {
    std::string name;
    std::uint64_t ticket;
    Steady until;
  };
  Script& script_;
  const Clock& clock_;
  std::vector<UnderWay> under_way_;
};

class TrialTest : public FailureTest {
 protected:
  // A store with ten events, of as many keys.
  void begin(SlowSink::Script script) {
    relay_.reset();
    store_ = memory_store({.shards = 2}, clock_);
    sink_ = std::move(script);
    for (int i = 0; i < 10; ++i) enqueue(std::to_string(i), std::to_string(i));
  }

  // A relay works for so long, unless it dies before, then is killed. Returns whether it died of an event.
  bool live(std::chrono::milliseconds time) {
    relay_ = std::make_unique<Relay>(*store_, RelayOptions{.name = "r"}, Log{}, clock_);
    relay_->add({.name = "out", .retry = {.first_delay = 1ms, .max_delay = 1ms}},
                std::make_unique<SlowSink>(sink_, clock_));
    sink_.dies_at.reset();
    for (const Steady end = clock_.steady() + time; clock_.steady() < end; clock_.advance(10ms)) {
      if (sink_.dies_at && clock_.steady() >= *sink_.dies_at) break;
      for (int i = 0; i < 20 && relay_->step() > 0; ++i) {
      }
    }
    const bool died = sink_.dies_at && clock_.steady() >= *sink_.dies_at;
    kill();
    return died;
  }

  void expect_nothing_given_up() {
    EXPECT_THAT(standing(Standing::dead), IsEmpty());
    EXPECT_THAT(standing(Standing::held), IsEmpty());
  }

  SlowSink::Script sink_;
};

// Kills from outside say nothing of the events that are under way: 287 of them, seven a second.
TEST_F(TrialTest, Row14_ACrashLoopHoldsAndBuriesNothing) {
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same every time.
  for (const milliseconds takes : {0ms, 30ms, 400ms}) {
    begin({.takes = takes});
    std::exponential_distribution<> lives(7.0);
    for (int kills = 0; kills < 287; ++kills) live(std::chrono::milliseconds(static_cast<int>(1'000 * lives(random))));
    expect_nothing_given_up();
    live(20s);
    EXPECT_EQ(10U, sink_.delivered.size()) << takes.count();
    EXPECT_THAT(store_->inspector()->undelivered({}).events, IsEmpty());
  }
}

// Also kills that come at a fixed age, whether an answer comes soon or after an age of its own.
TEST_F(TrialTest, Row14_RelaysThatAreKilledAtAFixedAgeBlameNobody) {
  for (const milliseconds takes : {30ms, 3'000ms})
    for (const milliseconds age : {30ms, 200ms, 1'010ms, 1'100ms, 2'020ms, 2'200ms, 4'030ms, 5'000ms, 8'100ms}) {
      begin({.takes = takes});
      for (int kills = 0; kills < 12; ++kills) live(age);
      expect_nothing_given_up();
      for (int runs = 0; runs < 3; ++runs) live(100s);
      EXPECT_EQ(10U, sink_.delivered.size()) << takes.count() << " " << age.count();
    }
}

// An event that kills relays is found, soon or late after it is sent, and alone.
TEST_F(TrialTest, Row14_80_AnEventThatKillsRelaysIsHeldAfterABoundedNumberOfDeaths) {
  for (const milliseconds kills_after : {0ms, 100ms, 1'000ms, 5'000ms}) {
    begin({.takes = 10ms, .poison = "4", .kills_after = kills_after});
    int deaths = 0;
    while (live(10min) && deaths < 30) ++deaths;
    EXPECT_LE(deaths, kills_after < 1s ? 7 : 11) << kills_after.count();
    EXPECT_THAT(standing(Standing::held), ElementsAre("4"));
    EXPECT_THAT(standing(Standing::dead), IsEmpty());
    EXPECT_EQ(9U, sink_.delivered.size());
  }
}

TEST_F(TrialTest, WhatIsHeldIsHeldForAReasonAndCanBeRedriven) {
  begin({.poison = "4"});
  while (live(1min)) {
  }
  const auto held = store_->inspector()->undelivered({.standings = {Standing::held}}).events;
  ASSERT_EQ(1U, held.size());
  EXPECT_THAT(held[0].row.error, testing::HasSubstr("died soon after"));
  EXPECT_EQ(trial::blamed_max, held[0].row.blamed);
  sink_.poison.clear();
  EXPECT_EQ(1, redrive(Standing::held));
  EXPECT_FALSE(live(10s));
  EXPECT_EQ(10U, sink_.delivered.size());
}

}  // namespace
}  // namespace waybill
