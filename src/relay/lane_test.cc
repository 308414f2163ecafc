#include <set>

#include <gtest/gtest.h>

#include "relay/lane_table.h"

namespace waybill {
namespace {

class LaneTest : public testing::Test {
 protected:
  void begin(Lane::Options options = {}) {
    lane_.emplace(table_.open(now_), 1, options, now_);
    read_upto_ = table_.settled;
    under_way_.clear();
  }

  void read(std::string_view events, bool ends_window = true) {
    table_.enqueue(events);
    read_on(ends_window);
  }
  void read_on(bool ends_window = true) {
    Chunk chunk = table_.read(read_upto_, 1'000, ends_window);
    windows_.push_back(chunk.window);
    lane_->append(std::move(chunk), [&](const EventView& event) {
      Lane::Decision decision{.publish = !skipped_.contains(event.seq)};
      if (scheduled_.contains(event.seq)) decision.due = Steady(1h);
      return decision;
    });
  }

  // Hands out all that may go now.
  std::string go() {
    std::string names;
    lane_->release_due(now_);
    const auto wanted = lane_->wanted(100);
    lane_->take_in(table_.fetch(wanted, now_), wanted, now_);
    while (const auto position = lane_->next(now_)) names += handed_out(*position);
    if (const auto position = lane_->next_alone()) names += std::string("alone ") + handed_out(*position);
    if (lane_->wants_alone() && !lane_->alone_announced()) lane_->announce_alone();
    return names;
  }
  char handed_out(Lane::Position position) {
    const std::int64_t seq = lane_->event(position).seq;
    under_way_[seq] = position;
    return static_cast<char>('0' + seq);
  }

  void done(int seq) { lane_->finish(under_way_.at(seq)); }
  void fails(int seq, std::chrono::milliseconds wait = 10s) {
    stands(seq, {.standing = Standing::retrying, .blocks = true, .wait = wait});
  }
  void dies(int seq) { stands(seq, {.standing = Standing::dead}); }
  void stands(int seq, Undelivered how) {
    Undelivered row = lane_->row(under_way_.at(seq));
    row.standing = how.standing;
    row.blocks = row.key != 0 && how.blocks;
    row.wait = how.wait;
    row.sending = Undelivered::Sending::no;
    lane_->put_back(under_way_.at(seq), row, now_);
  }

  // Saves; tells how far the cursor is and how the rows stand.
  std::string save() {
    const auto settlement = lane_->settle(now_);
    if (!settlement) return "nothing";
    table_.save(*settlement, now_);
    lane_->saved();
    std::string text = settlement->window ? std::to_string(settlement->seq) : "stays";
    if (settlement->window_done) text += " done";
    for (const auto& [seq, row] : table_.rows) {
      text += " " + std::to_string(seq) + "-" + std::string(to_string(row.standing));
      if (row.sending != Undelivered::Sending::no) text += "-sending";
    }
    return text;
  }

  LaneTable table_;
  std::optional<Lane> lane_;
  Steady now_{1'000s};
  std::int64_t read_upto_ = 0;
  std::map<std::int64_t, Lane::Position> under_way_;
  std::set<std::int64_t> skipped_;
  std::set<std::int64_t> scheduled_;
  std::vector<std::shared_ptr<const Window>> windows_;

  LaneTest() { begin(); }
};

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
  table_.change_the_dead(0, true, now_);  // So there are three now, and the lane knows of two.
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
  table_.change_the_dead(0, true, now_);
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
  EXPECT_EQ("stays 1-retrying-sending", save());
  EXPECT_EQ("alone 1", go());
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

}  // namespace
}  // namespace waybill
