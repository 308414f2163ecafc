// Attempts that are written down before they begin, and what is made of them after a crash.
#include "relay/lane_test.h"

namespace waybill {
namespace {

TEST_F(LaneTest, AttemptsCanBeAnnounced) {
  begin({.announce = true, .announced_max = 2});
  read("a1 a2 b3 c4");
  EXPECT_EQ("", go());
  EXPECT_EQ(Lane::Urgency::at_once, lane_->urgency(now_));
  EXPECT_EQ("3 1-retrying-sending 2-blocked 3-retrying-sending", save());
  EXPECT_EQ("13", go());
  done(1);
  EXPECT_EQ("", go());
  EXPECT_EQ("4 done 2-retrying-sending 3-retrying-sending 4-retrying-sending", save());
  EXPECT_EQ("24", go());
}

TEST_F(LaneTest, WhatARelayWasSendingWhenItDiedIsASuspect) {
  read("a1");
  go();
  fails(1, 0ms);
  save();
  go();
  EXPECT_EQ("stays 1-retrying-sending", save());
  begin();
  EXPECT_EQ("", go());
  const auto suspect = lane_->next_suspect();
  Undelivered row = lane_->row(*suspect);
  EXPECT_EQ(2, row.attempts);
  row.sending = Undelivered::Sending::no;
  row.crashes = 1;
  lane_->put_back(*suspect, row, now_);
  EXPECT_EQ("stays 1-retrying", save());
  EXPECT_EQ("", go());
  EXPECT_EQ("nothing", save());  // It is held back for a second.
  EXPECT_EQ(now_ + 1s, lane_->release_due(now_));
  now_ += 1s;
  EXPECT_EQ("", go());
  EXPECT_EQ("stays 1-retrying-sending", save());
  EXPECT_EQ(Undelivered::Sending::on_trial, table_.rows.at(1).sending);
  EXPECT_EQ("alone 1", go());
  EXPECT_EQ(now_ + 250ms, lane_->release_due(now_));
  now_ += 250ms;
  EXPECT_EQ("", go());
  EXPECT_EQ(Lane::Urgency::at_once, lane_->urgency(now_));
  EXPECT_EQ("stays 1-retrying-sending", save());
  EXPECT_EQ(Undelivered::Sending::yes, table_.rows.at(1).sending);  // Now a crash does not count against it.
}

// A relay that is told to leave, and is killed because it does not, was not killed by what it waits for.
TEST_F(LaneTest, NothingIsOnTrialInALaneThatIsGivenBack) {
  table_.enqueue("a1");
  table_.save(
      {.seq = 1, .count = 1, .undelivered = {{.seq = 1, .key = 7, .blocks = true, .attempts = 1, .crashes = 1}}}, now_);
  begin({.since = now_ - 1s});
  go();
  go();
  EXPECT_EQ("stays 1-retrying-sending", save());
  EXPECT_EQ("alone 1", go());
  EXPECT_EQ(Undelivered::Sending::on_trial, table_.rows.at(1).sending);
  lane_->abandon_rest();
  save();
  EXPECT_EQ(Undelivered::Sending::yes, table_.rows.at(1).sending);
  lane_->acquit();
  save();
  EXPECT_EQ(Undelivered::Sending::no, table_.rows.at(1).sending);
}

// As when it had to wait for many others that go alone.
TEST_F(LaneTest, ATrialThatBeginsTooLateDoesNotCount) {
  table_.enqueue("a1");
  table_.save(
      {.seq = 1, .count = 1, .undelivered = {{.seq = 1, .key = 7, .blocks = true, .attempts = 1, .crashes = 1}}}, now_);
  begin({.since = now_ - 2s});
  go();
  go();
  EXPECT_EQ("stays 1-retrying-sending", save());
  EXPECT_EQ("alone 1", go());
  EXPECT_EQ(Undelivered::Sending::yes, table_.rows.at(1).sending);
}

TEST_F(LaneTest, WhereRelaysHaveDiedEventsGoOneByOne) {
  table_.crashes = 2;
  begin();
  read("a1 b2 -3");
  EXPECT_EQ("", go());
  EXPECT_EQ("1 1-retrying-sending", save());
  EXPECT_EQ("1", go());
  EXPECT_EQ("nothing", save());
  done(1);
  EXPECT_EQ("2 2-retrying-sending", save());
  EXPECT_EQ("2", go());
}

TEST_F(LaneTest, WhereRelaysHaveDiedWhatWaitedIsAnnouncedToo) {
  scheduled_ = {1};
  read("a1");
  save();
  table_.crashes = 2;
  now_ = Steady(1h);
  begin();
  EXPECT_EQ("", go());
  EXPECT_EQ("stays 1-retrying-sending", save());
  EXPECT_EQ("1", go());
}

// The first is under way, so the cursor stands. Row 14: the second may be what kills relays, and must leave a trace.
TEST_F(LaneTest, Row14_ARetryThatIsDueBeforeTheCursorPassesItIsAnnounced) {
  read("a1 b2");
  go();
  fails(2, 100ms);
  now_ += 100ms;
  EXPECT_EQ("", go());
  EXPECT_EQ("nothing", save());
  done(1);
  EXPECT_EQ("2 done 2-retrying", save());
  EXPECT_EQ("", go());  // It was due already, and is to be announced.
  EXPECT_EQ("stays 2-retrying-sending", save());
  EXPECT_EQ("2", go());
  EXPECT_EQ(2, lane_->row(under_way_.at(2)).attempts);
}

// A slow event holds a retry behind it up for no longer than it holds the cursor up; then the retry is due when it was
// to be, not later.
TEST_F(LaneTest, ARetryWaitsForTheCursorNoLongerThanASecond) {
  read("a1 b2 c3");
  go();
  fails(2, 100ms);
  fails(3, 1'500ms);
  EXPECT_EQ(now_ + 1s, lane_->release_due(now_));
  now_ += 1s;
  EXPECT_EQ("3 done 1-retrying 2-retrying 3-retrying", save());
  EXPECT_EQ("", go());
  EXPECT_EQ("stays 1-retrying 2-retrying-sending 3-retrying", save());
  EXPECT_EQ(now_ + 500ms, lane_->release_due(now_));
}

// Else nothing would ever make room: all that is blocked waits for a person.
TEST_F(LaneTest, ARetryIsPassedAtTheLimitWhenItIsDue) {
  begin({.blocked_max = 1});
  read("a1 b2");
  go();
  stands(1, {.standing = Standing::held, .blocks = true});
  EXPECT_EQ("1 1-held", save());
  fails(2, 100ms);
  EXPECT_EQ("nothing", save());
  EXPECT_EQ(now_ + 100ms, lane_->release_due(now_));
  now_ += 100ms;
  EXPECT_EQ("2 done 1-held 2-retrying", save());
}

TEST_F(LaneTest, WhatWasAnnouncedAndCouldNotBeSentIsTakenBack) {
  read("a1");
  go();
  fails(1, 0ms);
  save();
  go();
  save();
  EXPECT_EQ("1", go());
  lane_->abandon_rest();
  lane_->again_first(under_way_.at(1));
  EXPECT_EQ("stays 1-retrying", save());
  EXPECT_EQ(1, table_.rows.at(1).attempts);
}

TEST_F(LaneTest, WhatWasAnnouncedAndNotSentIsTakenBack) {
  read("a1");
  go();
  fails(1, 0ms);
  save();
  go();
  save();
  lane_->abandon_rest();
  EXPECT_EQ("stays 1-retrying", save());
  EXPECT_EQ(1, table_.rows.at(1).attempts);
}

TEST_F(LaneTest, AnAbandonedLaneAnnouncesNothing) {
  begin({.announce = true});
  read("a1 a2 a3");
  save();
  EXPECT_EQ("1", go());
  lane_->abandon_rest();
  done(1);
  EXPECT_EQ("", go());
  EXPECT_EQ("stays 2-blocked 3-blocked", save());
}

}  // namespace
}  // namespace waybill
