#include "relay/lane_test.h"

namespace waybill {
namespace {

TEST_F(LaneTest, OneOfAKeyIsUnderWay) {
  read("a1 b2 a3 a4 b5");
  EXPECT_EQ("12", go());
  done(1);
  EXPECT_EQ("3", go());
  done(2);
  EXPECT_EQ("5", go());
  done(3);
  EXPECT_EQ("4", go());
}

TEST_F(LaneTest, KeysAreKeptInOrderOverChunks) {
  read("a1");
  EXPECT_EQ("1", go());
  read("a2 b3");
  EXPECT_EQ("3", go());
  done(1);
  EXPECT_EQ("2", go());
}

TEST_F(LaneTest, AnEventWithoutAKeyWaitsForNobody) {
  read("-1 -2 -3");
  EXPECT_EQ("123", go());
}

TEST_F(LaneTest, SettlesThePrefixOnly) {
  read("a1 b2 c3", false);
  go();
  EXPECT_EQ("nothing", save());
  done(2);
  EXPECT_EQ("nothing", save());
  done(1);
  EXPECT_EQ("2", save());
  EXPECT_EQ("nothing", save());
  done(3);
  EXPECT_EQ("3", save());
}

TEST_F(LaneTest, TheWindowIsDoneWithItsLastEvent) {
  read("a1", false);
  read("b2", true);
  go();
  done(2);
  done(1);
  const auto settlement = lane_->settle(now_);
  EXPECT_EQ(windows_[1], settlement->window);
  EXPECT_TRUE(settlement->window_done);
  EXPECT_EQ(2, settlement->count);
  EXPECT_EQ(0U, lane_->unsettled());
  EXPECT_EQ(0U, lane_->bytes());
}

TEST_F(LaneTest, AnEmptyChunkMovesOnceTheEventsBeforeItAreSettled) {
  read("a1");
  read("");
  go();
  EXPECT_EQ("nothing", save());
  done(1);
  EXPECT_EQ(windows_[1], lane_->settle(now_)->window);
}

TEST_F(LaneTest, SkippedEventsSettleByThemselves) {
  skipped_ = {1, 3};
  read("a1 b2 a3");
  EXPECT_EQ("1", save());
  EXPECT_EQ("2", go());
  done(2);
  EXPECT_EQ("3 done", save());
}

TEST_F(LaneTest, AFailedEventIsPassedAndHoldsItsKeyAndNoOther) {
  read("a1 a2 b3");
  EXPECT_EQ("13", go());
  fails(1);
  done(3);
  EXPECT_EQ("", go());
  EXPECT_EQ("3 done 1-retrying 2-blocked", save());
  EXPECT_EQ(2, lane_->blocked());
  read("a4 b5");
  EXPECT_EQ("5", go());
  done(5);
  EXPECT_EQ("5 done 1-retrying 2-blocked 4-blocked", save());
}

TEST_F(LaneTest, ABlockedKeyIsDrainedInOrderAndHandedBackWhenThatIsSaved) {
  read("a1 a2 a3");
  go();
  fails(1);
  save();
  now_ += 10s;
  EXPECT_EQ("", go());  // An attempt at what has failed is announced first.
  EXPECT_EQ("stays 1-retrying-sending 2-blocked 3-blocked", save());
  EXPECT_EQ("1", go());
  EXPECT_EQ(2, lane_->row(under_way_.at(1)).attempts);
  done(1);
  EXPECT_EQ("2", go());
  done(2);
  EXPECT_EQ("3", go());
  read("a4");
  done(3);
  EXPECT_EQ("", go());
  EXPECT_EQ("stays", save());  // The fourth need not join those that are gone.
  EXPECT_EQ("4", go());
  done(4);
  EXPECT_EQ("4 done", save());
  EXPECT_EQ(0, lane_->blocked());
}

TEST_F(LaneTest, TheNextOfTheKeyGoesWhenABurialIsSaved) {
  read("a1 a2 b3");
  go();
  dies(1);
  EXPECT_EQ("", go());
  EXPECT_EQ("1 1-dead", save());
  EXPECT_EQ("2", go());
  EXPECT_EQ(0, lane_->blocked());
}

TEST_F(LaneTest, ABurialInTheSidingIsSavedBeforeTheNextGoes) {
  read("a1 a2 a3");
  go();
  fails(1, 0ms);
  save();
  go();
  save();
  EXPECT_EQ("1", go());
  done(1);
  EXPECT_EQ("2", go());
  dies(2);
  EXPECT_EQ("", go());
  EXPECT_EQ("stays 2-dead 3-blocked", save());
  EXPECT_EQ("3", go());
}

TEST_F(LaneTest, ARedriveDoesNotFreeTheKeyBehindIt) {
  begin();
  read("a1 a2 a3");
  EXPECT_EQ("1", go());
  dies(1);
  EXPECT_EQ("1 1-dead", save());
  EXPECT_EQ("2", go());
  fails(2);
  EXPECT_EQ("3 done 1-dead 2-retrying 3-blocked", save());
  table_.decide(0, true, now_);  // So there are three now, and the lane knows of two.
  now_ += 10s;
  EXPECT_EQ("1", go());
  done(1);
  EXPECT_EQ("", go());
  EXPECT_EQ("stays 2-retrying-sending 3-blocked", save());
  EXPECT_EQ("2", go());
  done(2);
  save();
  read("a4");
  EXPECT_EQ("3", go());
  done(3);
  EXPECT_EQ("", go());
  save();
  EXPECT_EQ("4", go());
}

TEST_F(LaneTest, WhatIsFetchedBeforeItsTimeWaitsForIt) {
  begin();
  read("a1 a2");
  EXPECT_EQ("1", go());
  dies(1);
  save();
  EXPECT_EQ("2", go());
  fails(2, 1h);
  save();
  table_.decide(0, true, now_);
  begin();
  EXPECT_EQ("1", go());
  done(1);
  save();
  now_ += 59min;
  EXPECT_EQ("", go());
  now_ += 1min;
  EXPECT_EQ("", go());
  EXPECT_EQ("stays 2-retrying-sending", save());
  EXPECT_EQ("2", go());
}

TEST_F(LaneTest, ADeadEventMayKeepItsKeyBlocked) {
  read("a1 a2 b3");
  go();
  stands(1, {.standing = Standing::dead, .blocks = true});
  done(3);
  EXPECT_EQ("3 done 1-dead 2-blocked", save());
  begin();
  read("a4");
  now_ += 1h;
  EXPECT_EQ("", go());
  EXPECT_EQ("4 done 1-dead 2-blocked 4-blocked", save());
}

TEST_F(LaneTest, AKeyMayBeBuriedWhole) {
  read("a1 a2");
  go();
  fails(1, 0ms);
  save();
  read("a3 b4");
  go();
  save();
  EXPECT_EQ("1", go());
  dies(1);
  lane_->bury_key(table_.rows.at(2).key);
  EXPECT_EQ("stays 1-dead 2-dead 3-dead", save());
  read("a5");
  EXPECT_EQ("5", go());
}

TEST_F(LaneTest, ATakeOverFindsTheBlockedKeys) {
  read("a1 a2 b3");
  go();
  fails(1, 5s);
  done(3);
  save();
  begin();
  read("a4 b5");
  EXPECT_EQ("5", go());
  now_ += 5s;
  go();
  save();
  EXPECT_EQ("1", go());
  done(1);
  EXPECT_EQ("2", go());
}

TEST_F(LaneTest, ASlowEventIsPassed) {
  read("a1 a2 b3");
  go();
  done(3);
  EXPECT_EQ("nothing", save());
  now_ += 1s;
  EXPECT_EQ("3 done 1-retrying 2-blocked", save());
  EXPECT_EQ("", go());
  done(1);
  EXPECT_EQ("2", go());
  done(2);
  EXPECT_EQ("stays", save());
}

TEST_F(LaneTest, ASlowEventMayComeToNothing) {
  read("a1 a2");
  go();
  now_ += 1s;
  save();
  lane_->again_first(under_way_.at(1));
  EXPECT_EQ("1", go());
  fails(1, 1s);
  EXPECT_EQ("stays 1-retrying 2-blocked", save());
}

TEST_F(LaneTest, Row48_AnOutageBurnsNoAttempt) {
  read("a1");
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ("1", go());
    lane_->again_first(under_way_.at(1));
  }
  go();
  EXPECT_EQ(1, lane_->row(under_way_.at(1)).attempts);
  fails(1, 0ms);
  save();
  go();
  save();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ("1", go());
    lane_->again_first(under_way_.at(1));
  }
  go();
  EXPECT_EQ(2, lane_->row(under_way_.at(1)).attempts);
}

TEST_F(LaneTest, Row48_AnOutageBurnsNoAttemptOfWhatWaited) {
  read("a1 a2");
  go();
  fails(1, 0ms);
  save();
  go();
  save();
  go();
  done(1);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ("2", go());
    lane_->again_first(under_way_.at(2));
  }
  go();
  EXPECT_EQ(1, lane_->row(under_way_.at(2)).attempts);
}

TEST_F(LaneTest, WhatIsHeldInTheMiddleOfAKeyIsNotSent) {
  table_.enqueue("a1 a2 a3");
  table_.settled = 3;
  const std::uint64_t key = 99;
  for (const std::int64_t seq : {1, 2, 3})
    table_.save(
        {.undelivered =
             {{.seq = seq, .key = key, .standing = seq == 2 ? Standing::held : Standing::retrying, .blocks = true}}},
        now_);
  begin();
  EXPECT_EQ("1", go());
  done(1);
  EXPECT_EQ("", go());
  save();
  EXPECT_EQ("", go());
  now_ += 1h;
  EXPECT_EQ("", go());
  EXPECT_EQ(Standing::held, table_.rows.at(2).standing);
}

TEST_F(LaneTest, AScheduledEventLeavesItsKeysOrderAndIsPassed) {
  scheduled_ = {1};
  read("a1 a2");
  EXPECT_EQ("2", go());
  done(2);
  EXPECT_EQ("2 done 1-scheduled", save());
  now_ = Steady(1h);
  EXPECT_EQ("1", go());
  done(1);
  EXPECT_EQ("stays", save());
}

TEST_F(LaneTest, StandsStillAtTheLimit) {
  begin({.blocked_per_key_max = 2});
  read("a1 a2 a3 b4");
  go();
  fails(1, 10s);
  done(4);
  EXPECT_FALSE(lane_->at_limit());
  EXPECT_EQ("2 1-retrying 2-blocked", save());
  EXPECT_TRUE(lane_->at_limit());
  now_ += 10s;
  go();
  save();
  go();
  done(1);
  EXPECT_EQ("stays 2-blocked", save());
  EXPECT_EQ("4 done 2-blocked 3-blocked", save());
}

TEST_F(LaneTest, AnAbandonedRestIsNotHandedOut) {
  read("a1 a2 b3 b4");
  EXPECT_EQ("13", go());
  lane_->abandon_rest();
  done(1);
  EXPECT_EQ("1", save());
  done(3);
  EXPECT_EQ("", go());
  EXPECT_EQ("3 2-retrying", save());  // So that 3 is not sent again.
  EXPECT_EQ(0U, lane_->under_way());
}

TEST_F(LaneTest, WhatIsAbandonedPassesAKeyThatWasAboutToBeFree) {
  read("a1");
  EXPECT_EQ("1", go());
  fails(1, 0ms);
  save();
  begin();  // Others may have rows of the key now: that there are none left is asked.
  EXPECT_EQ("", go());
  save();
  EXPECT_EQ("1", go());
  read("a2 b3");
  EXPECT_EQ("3", go());
  done(1);
  done(3);
  lane_->abandon_rest();
  EXPECT_EQ("3 done 2-blocked", save());  // So that 3 is not sent again.
  EXPECT_EQ(Lane::Urgency::none, lane_->urgency(now_));
}

}  // namespace
}  // namespace waybill
