// Events that fail: what becomes of them, and of the others of their key.
#include "relay/failure_test.h"

#include <set>

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(FailureTest, AFailedEventBlocksItsKeyAndNoOther) {
  script_.next["1"] = {Kind::retry, Kind::retry};
  start({.retry = {.first_delay = 60s}});  // Waits are random: this one is over in 40 ms once in 1,500 runs.
  enqueue("a", "1");
  enqueue("a", "2");
  enqueue("b", "3");
  go(40ms);
  EXPECT_THAT(script_.delivered, ElementsAre("3"));
  go(4min);
  EXPECT_THAT(script_.delivered, ElementsAre("3", "1", "2"));
  EXPECT_THAT(script_.attempted, ElementsAre("1", "3", "1", "1", "2"));
  enqueue("a", "4");
  go();
  EXPECT_EQ("4", script_.delivered.back());
  EXPECT_TRUE(store_->inspector()->undelivered({}).events.empty());
}

TEST_F(FailureTest, ABlockedKeySurvivesKills) {
  script_.next["1"] = {Kind::retry, Kind::retry, Kind::retry, Kind::retry};
  start({.retry = {.first_delay = 60s}});
  enqueue("a", "1");
  enqueue("a", "2");
  go(1s);
  EXPECT_THAT(standing(Standing::blocked), ElementsAre("2"));
  kill();
  start();
  enqueue("a", "3");
  enqueue("b", "4");
  go(1s);
  EXPECT_THAT(script_.delivered, ElementsAre("4"));
  kill();
  start();
  go(10min);
  EXPECT_THAT(script_.delivered, ElementsAre("4", "1", "2", "3"));
}

TEST_F(FailureTest, Row80_WhenAttemptsRunOutTheEventIsDeadAndTheKeyGoesOn) {
  script_.next["1"] = {Kind::retry, Kind::retry, Kind::retry};
  start({.retry = {.attempts = 3}});
  enqueue("a", "1");
  enqueue("a", "2");
  go(20s);
  EXPECT_THAT(script_.attempted, ElementsAre("1", "1", "1", "2"));
  EXPECT_THAT(standing(Standing::dead), ElementsAre("1"));
  EXPECT_EQ(1U, relay_->counts("out").dead);
  const auto dead = store_->inspector()->undelivered({}).events.at(0);
  EXPECT_EQ(3, dead.row.attempts);
  const auto story = store_->inspector()->find(dead.event.id);
  EXPECT_EQ("dead", story->destinations.at(0).state);
  EXPECT_EQ(3U, story->destinations.at(0).attempts.size());
}

TEST_F(FailureTest, Row80_ADeadEventMayBlockItsKeyUntilAPersonDecides) {
  script_.next["1"] = {Kind::rejected};
  start({.on_dead = OnDead::block});
  enqueue("a", "1");
  enqueue("a", "2");
  go(1h);
  EXPECT_THAT(script_.delivered, IsEmpty());
  EXPECT_EQ(1, redrive());
  go(5s);
  EXPECT_THAT(script_.delivered, ElementsAre("1", "2"));
}

TEST_F(FailureTest, ADismissedEventLetsItsKeyGoOn) {
  script_.next["1"] = {Kind::rejected};
  start({.on_dead = OnDead::block});
  enqueue("a", "1");
  enqueue("a", "2");
  go(5s);
  EXPECT_EQ(1, store_->operate()->dismiss({.id = EventId::make()}, {.destination = "out"}, 10));
  go(5s);
  EXPECT_THAT(script_.delivered, ElementsAre("2"));
  EXPECT_THAT(standing(Standing::dismissed), ElementsAre("1"));
}

TEST_F(FailureTest, Row80_AKeyMayBeBuriedWhole) {
  script_.next["1"] = {Kind::retry, Kind::rejected};
  start({.on_dead = OnDead::bury_key});
  enqueue("a", "1");
  enqueue("a", "2");
  enqueue("b", "3");
  go(10s);
  EXPECT_THAT(script_.delivered, ElementsAre("3"));
  EXPECT_THAT(standing(Standing::dead), ElementsAre("1", "2"));
  enqueue("a", "4");
  go();
  EXPECT_THAT(script_.delivered, ElementsAre("3", "4"));
}

TEST_F(FailureTest, ASlowEventDoesNotHoldTheRest) {
  script_.stuck = {"1"};
  start();
  enqueue("a", "1");
  enqueue("a", "2");
  for (int i = 3; i <= 3'000; ++i) enqueue("b" + std::to_string(i), std::to_string(i));
  go(5s);
  EXPECT_EQ(2'998U, script_.delivered.size());
  EXPECT_EQ(0, store_->inspector()->status().destinations.at(0).pending.value);
  script_.stuck.clear();
  go(1s);
  EXPECT_EQ("2", script_.delivered.back());
  EXPECT_EQ("1", script_.delivered[script_.delivered.size() - 2]);
}

TEST_F(FailureTest, AScheduledEventHoldsNothingAndComesInTime) {
  start();
  Event later = event("a", "1");
  later.not_before = clock_.now() + 1h;
  enqueue(later);
  enqueue("a", "2");
  go(1s);
  EXPECT_THAT(script_.delivered, ElementsAre("2"));
  EXPECT_THAT(standing(Standing::scheduled), ElementsAre("1"));
  kill();
  start();
  go(59min);
  EXPECT_THAT(script_.delivered, ElementsAre("2"));
  go(1min);
  EXPECT_THAT(script_.delivered, ElementsAre("2", "1"));
}

TEST_F(FailureTest, AnExpiredEventIsNotDelivered) {
  script_.next["1"] = {Kind::retry};
  start({.retry = {.first_delay = 600s}});
  Event short_lived = event("a", "1");
  short_lived.expires_at = clock_.now() + 1s;
  enqueue(short_lived);
  enqueue("a", "2");
  go(11min);
  EXPECT_THAT(script_.delivered, ElementsAre("2"));
  EXPECT_THAT(standing(Standing::expired), ElementsAre("1"));
}

// Of an expired event it is told whether it may have arrived.
TEST_F(FailureTest, AnExpiredEventThatMayHaveArrivedIsToldApart) {
  script_.next["1"] = std::deque<Kind>(1'000, Kind::retry);
  script_.next["1"].front() = Kind::unknown;
  script_.next["2"] = std::deque<Kind>(1'000, Kind::retry);
  start({.retry = {.attempts = 0, .first_delay = 5s, .max_delay = 5s}});
  for (const char* name : {"1", "2"}) {
    Event short_lived = event(name, name);
    short_lived.expires_at = clock_.now() + 30s;
    enqueue(short_lived);
  }
  go(2min);
  EXPECT_THAT(standing(Standing::expired_unknown), ElementsAre("1")) << "though the last answer was that it has not";
  EXPECT_THAT(standing(Standing::expired), ElementsAre("2"));
  EXPECT_EQ(1U, relay_->counts("out").expired);
  EXPECT_EQ(1U, relay_->counts("out").expired_unknown);
}

// What a relay was sending when it died may have arrived; what was written later has not.
TEST_F(FailureTest, WhatExpiresAfterACrashMayHaveArrived) {
  script_.answers = false;
  start();
  Event under_way = event("a", "1");
  under_way.expires_at = clock_.now() + 5s;
  enqueue(under_way);
  go(100ms);
  EXPECT_THAT(script_.attempted, ElementsAre("1"));
  kill();
  script_.answers = true;
  start();
  go(100ms);
  Event later = event("a", "2");
  later.expires_at = clock_.now();
  clock_.advance(1s);
  enqueue(later);
  go(2s);
  EXPECT_THAT(standing(Standing::expired_unknown), ElementsAre("1"));
  EXPECT_THAT(standing(Standing::expired), ElementsAre("2"));
}

// A slow event that the cursor has passed, and a relay that dies before it is answered.
TEST_F(FailureTest, WhatExpiresAfterItWasPassedUnderWayMayHaveArrived) {
  script_.answers = false;
  start();
  Event slow = event("a", "1");
  slow.expires_at = clock_.now() + 5s;
  enqueue(slow);
  go(3s);
  EXPECT_THAT(standing(Standing::retrying), ElementsAre("1"));
  kill();
  script_.answers = true;
  start();
  go(2s);
  EXPECT_THAT(standing(Standing::expired_unknown), ElementsAre("1"));
}

TEST_F(FailureTest, AnExpiredEventGoesAfterAllIfAPersonSaysSo) {
  start();
  Event late = event("a", "1");
  late.expires_at = clock_.now() - 1s;
  enqueue(late);
  script_.next["2"] = {Kind::rejected};
  Event dead = event("b", "2");
  dead.expires_at = clock_.now() + 1min;
  enqueue(dead);
  go(2s);
  EXPECT_THAT(standing(Standing::expired), ElementsAre("1"));
  EXPECT_EQ(1, store_->operate()->redrive({.id = EventId::make()}, {.destination = "out"}, 1'000)) << "the dead one";
  go(2s);
  EXPECT_THAT(script_.delivered, ElementsAre("2"));
  script_.next["1"] = {Kind::retry};
  EXPECT_EQ(1, redrive(Standing::expired));
  go(10s);
  EXPECT_THAT(script_.delivered, ElementsAre("2", "1"));
}

TEST_F(FailureTest, ADeadEventThatIsRedrivenTooLateExpires) {
  script_.next["1"] = {Kind::rejected};
  start();
  Event dead = event("a", "1");
  dead.expires_at = clock_.now() + 1min;
  enqueue(dead);
  go(2min);
  EXPECT_EQ(1, redrive(Standing::dead));
  go(2s);
  EXPECT_THAT(standing(Standing::expired), ElementsAre("1"));
}

TEST_F(FailureTest, ExpiriesAreLoggedTheFirstAtOnceAndThenNowAndThen) {
  start();
  std::vector<std::string> lines;
  relay_ = std::make_unique<Relay>(*store_, RelayOptions{},
                                   Log([&](LogLevel, std::string_view text, std::span<const LogField> fields) {
                                     if (text.find("expired") == std::string_view::npos) return;
                                     for (const LogField& field : fields)
                                       if (field.name == "events") lines.push_back(field.value);
                                   }),
                                   clock_);
  relay_->add({.name = "out"}, std::make_unique<ScriptedSink>(script_));
  go(100ms);
  for (int i = 0; i < 50; ++i) {
    Event late = event("", std::to_string(i));
    late.expires_at = clock_.now() - 1s;
    enqueue(late);
    go(100ms);
  }
  EXPECT_THAT(lines, ElementsAre("1"));
  go(10s);
  EXPECT_THAT(lines, ElementsAre("1", "49"));
}

TEST_F(FailureTest, WhatMayHaveArrivedIsHeldAndReleasedByAPerson) {
  script_.next["1"] = {Kind::unknown};
  start({.on_unknown = OnUnknown::hold});
  enqueue("a", "1");
  enqueue("b", "2");
  go(10min);
  EXPECT_THAT(script_.attempted, ElementsAre("1", "2"));
  EXPECT_THAT(standing(Standing::held), ElementsAre("1"));
  EXPECT_EQ(1, redrive(Standing::held));
  go(5s);
  EXPECT_THAT(script_.delivered, ElementsAre("2", "1"));
}

TEST_F(FailureTest, Row6_WhereNothingIsSentTwiceAKillHoldsWhatWasUnderWay) {
  script_.answers = false;
  start({.on_unknown = OnUnknown::hold});
  enqueue("a", "1");
  enqueue("a", "2");
  go(500ms);
  EXPECT_THAT(script_.attempted, ElementsAre("1"));
  kill();
  script_.answers = true;
  start({.on_unknown = OnUnknown::hold});
  go(10min);
  EXPECT_THAT(script_.attempted, ElementsAre("1", "2"));
  EXPECT_THAT(standing(Standing::held), ElementsAre("1"));
}

// An event that kills whoever sends it is found, and the others come through: whichever it is of those that are under
// way, to be sent next, or in doubt after an earlier crash.
TEST_F(FailureTest, Row14_80_APoisonEventIsFoundAndHeld) {
  for (int poison = 1; poison <= 9; ++poison) {
    relay_.reset();
    store_ = memory_store({.shards = 4}, clock_);
    script_ = {};
    script_.poison = {std::to_string(poison)};
    for (int i = 1; i <= 9; ++i) enqueue(std::to_string(i), std::to_string(i));
    EXPECT_LT(kills_until_all_ended(), 10);
    EXPECT_THAT(standing(Standing::held), ElementsAre(std::to_string(poison)));
    EXPECT_THAT(standing(Standing::dead), IsEmpty());
    EXPECT_EQ(8U, std::set(script_.delivered.begin(), script_.delivered.end()).size());
  }
}

// What failed before is announced when it is tried again, and a relay's death makes all of it suspect.
TEST_F(FailureTest, Row14_80_APoisonEventIsToldFromOthersThatFailed) {
  for (int i = 1; i <= 9; ++i) {
    enqueue(std::to_string(i), std::to_string(i));
    script_.next[std::to_string(i)] = {Kind::retry};
  }
  start({.retry = {.first_delay = 1h, .max_delay = 1h}});  // Waits are random, and this one must not be over too soon.
  go(100ms);
  script_.poison = {"5"};
  clock_.advance(1h);
  EXPECT_LT(kills_until_all_ended(), 10);
  EXPECT_THAT(standing(Standing::held), ElementsAre("5"));
  EXPECT_EQ(8U, std::set(script_.delivered.begin(), script_.delivered.end()).size());
}

TEST_F(FailureTest, APausedDestinationGetsNothing) {
  start();
  enqueue("a", "1");
  go();
  store_->operate()->pause({.id = EventId::make()}, "out", true);
  go(2s);
  enqueue("a", "2");
  go(1h);
  EXPECT_THAT(script_.delivered, ElementsAre("1"));
  store_->operate()->pause({.id = EventId::make()}, "out", false);
  go(2s);
  EXPECT_THAT(script_.delivered, ElementsAre("1", "2"));
}

TEST_F(FailureTest, Row81_ARedriveComesOutWhileTheRelayRuns) {
  script_.next["1"] = {Kind::rejected};
  start();
  enqueue("a", "1");
  enqueue("a", "2");
  go(5s);
  EXPECT_EQ(1, redrive());
  for (int i = 3; i < 50; ++i) {
    enqueue("a", std::to_string(i));
    go(50ms);
  }
  go(3s);
  EXPECT_EQ(49U, script_.delivered.size());
  std::erase(script_.delivered, "1");
  for (std::size_t i = 0; i < script_.delivered.size(); ++i) EXPECT_EQ(std::to_string(i + 2), script_.delivered[i]);
}

// A hot key fails with many behind it: memory stays flat, others flow.
TEST_F(FailureTest, ManyFollowersOfAFailedEventWaitInTheStore) {
  script_.next["0"] = {Kind::retry};
  start({.retry = {.first_delay = 600s}});
  enqueue("hot", "0");
  for (int i = 1; i <= 5'000; ++i) enqueue("hot", std::to_string(i));
  go(2s);
  EXPECT_EQ(0, store_->inspector()->status().destinations.at(0).pending.value);
  EXPECT_EQ(5'001, store_->inspector()->blocked_keys("out", 1).at(0).events.value);
  enqueue("cold", "-1");
  go();
  EXPECT_THAT(script_.delivered, ElementsAre("-1"));
  go(12min);
  ASSERT_EQ(5'002U, script_.delivered.size());
  for (int i = 0; i <= 5'000; ++i) EXPECT_EQ(std::to_string(i), script_.delivered[static_cast<std::size_t>(i) + 1]);
}

// The lane is full of events that only wait to be passed: others are behind them, and would wait for the next save.
TEST_F(FailureTest, FollowersAreOutOfTheWaySoon) {
  script_.next["0"] = {Kind::retry};
  start({.retry = {.first_delay = 600s}});
  enqueue("hot", "0");
  go();
  for (int i = 1; i <= 5'000; ++i) enqueue("hot", std::to_string(i));
  for (int i = 0; i < 16; ++i) enqueue("cold" + std::to_string(i), std::to_string(-1 - i));
  go(100ms);
  EXPECT_EQ(16U, script_.delivered.size());
}

TEST_F(FailureTest, EverybodyCanSeeThatADestinationIsAway) {
  const auto troubles = [&] { return store_->inspector()->status().relays.at(0).troubles; };
  start();
  go();
  EXPECT_THAT(troubles(), IsEmpty());
  EXPECT_FALSE(relay_->counts("out").breaker.open);

  script_.away = true;
  enqueue("k", "1");
  go(3s);
  const BreakerState breaker = relay_->counts("out").breaker;
  EXPECT_TRUE(breaker.open);
  EXPECT_EQ("away", breaker.reason);
  ASSERT_TRUE(breaker.next_try);
  EXPECT_LE(*breaker.next_try, clock_.now() + 4s);
  EXPECT_THAT(troubles(), ElementsAre(Trouble{.destination = "out", .text = "away"}));

  script_.away = false;
  go(6s);
  EXPECT_FALSE(relay_->counts("out").breaker.open);
  EXPECT_EQ("", relay_->counts("out").breaker.reason);
  EXPECT_THAT(troubles(), IsEmpty());
}

TEST_F(FailureTest, EverybodyCanSeeWhatElseIsWrong) {
  const auto troubles = [&] { return store_->inspector()->status().relays.at(0).troubles; };
  start();
  go();
  relay_->report("cannot clean");
  go(2s);
  EXPECT_THAT(troubles(), ElementsAre(Trouble{.destination = "", .text = "cannot clean"}));
  relay_->report("");
  go(2s);
  EXPECT_THAT(troubles(), IsEmpty());
}

TEST_F(FailureTest, AttemptsAreCountedByWhatTheyCameTo) {
  script_.next["1"] = {Kind::retry, Kind::unknown};
  script_.next["2"] = {Kind::rejected};
  start();
  enqueue("a", "1");
  enqueue("b", "2");
  go(20s);
  const RelayCounts counts = relay_->counts("out");
  EXPECT_EQ(1U, counts.delivered);
  EXPECT_EQ(3U, counts.failed);
  EXPECT_EQ(1U, counts.failed_with.at(Kind::retry));
  EXPECT_EQ(1U, counts.failed_with.at(Kind::unknown));
  EXPECT_EQ(1U, counts.failed_with.at(Kind::rejected));
  EXPECT_EQ(0U, counts.failed_with.at(Kind::unavailable));
  EXPECT_EQ(1U, counts.dead);
  EXPECT_EQ(1U, counts.latency.count);
  EXPECT_EQ(2U, counts.leases);
  EXPECT_EQ(counts.lag, counts.latency.sum);
}

}  // namespace
}  // namespace waybill
