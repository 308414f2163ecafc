#include "relay/verdict.h"

#include <gtest/gtest.h>

namespace waybill {
namespace {

using namespace std::chrono_literals;
using Kind = Outcome::Kind;

class VerdictTest : public testing::Test {
 protected:
  Verdict after(Kind kind, int attempts, std::uint64_t key = 7) {
    return verdict(destination_, event_, {.seq = 1, .key = key, .attempts = attempts}, {1, kind, "why"}, 0.999);
  }

  DestinationOptions destination_{.name = "out", .retry = {.attempts = 3, .first_delay = 1s, .max_delay = 3s}};
  EventView event_{};
};

TEST_F(VerdictTest, AFailedEventIsTriedAgainAtGrowingIntervals) {
  const Verdict first = after(Kind::retry, 1);
  EXPECT_EQ(Standing::retrying, first.row.standing);
  EXPECT_TRUE(first.row.blocks);
  EXPECT_EQ(999ms, first.row.wait);
  EXPECT_EQ("why", first.row.error);
  EXPECT_EQ(1998ms, after(Kind::retry, 2).row.wait);
  EXPECT_EQ(Standing::dead, after(Kind::retry, 3).row.standing);
}

TEST_F(VerdictTest, AnEventMayBringItsOwnNumberOfAttempts) {
  event_.attempts_max = 1;
  EXPECT_EQ(Standing::dead, after(Kind::retry, 1).row.standing);
  event_.attempts_max = 100;
  EXPECT_EQ(Standing::retrying, after(Kind::retry, 99).row.standing);
  EXPECT_EQ(2997ms, after(Kind::retry, 99).row.wait);
}

TEST_F(VerdictTest, AttemptsMayBeUnlimited) {
  destination_.retry.attempts = 0;
  EXPECT_EQ(Standing::retrying, after(Kind::retry, 1'000'000).row.standing);
}

TEST_F(VerdictTest, WhatIsRejectedIsDeadAtOnce) {
  EXPECT_EQ(Standing::dead, after(Kind::rejected, 1).row.standing);
}

TEST_F(VerdictTest, TheKeyGoesOnOrBlocksOrIsBuried) {
  EXPECT_FALSE(after(Kind::rejected, 1).row.blocks);
  EXPECT_FALSE(after(Kind::rejected, 1).bury_key);
  destination_.on_dead = OnDead::block;
  EXPECT_TRUE(after(Kind::rejected, 1).row.blocks);
  EXPECT_FALSE(after(Kind::rejected, 1, 0).row.blocks);
  destination_.on_dead = OnDead::bury_key;
  EXPECT_TRUE(after(Kind::rejected, 1).bury_key);
  EXPECT_FALSE(after(Kind::rejected, 1, 0).bury_key);
}

TEST_F(VerdictTest, WhatMayHaveArrivedIsSentAgainOrHeld) {
  EXPECT_EQ(Standing::retrying, after(Kind::unknown, 1).row.standing);
  destination_.on_unknown = OnUnknown::hold;
  EXPECT_EQ(Standing::held, after(Kind::unknown, 1).row.standing);
  EXPECT_EQ(Standing::retrying, after(Kind::retry, 1).row.standing);
}

TEST_F(VerdictTest, AnAttemptThatWasNotItsFaultDoesNotCount) {
  const Verdict verdict =
      verdict_of_not_guilty(destination_, {.seq = 1, .key = 7, .attempts = 3}, {1, Kind::rejected, "why"}, 0.5);
  EXPECT_EQ(Standing::retrying, verdict.row.standing);
  EXPECT_EQ(2, verdict.row.attempts);
}

// 14: a poison event.
TEST_F(VerdictTest, WhatKillsRelaysIsTriedAloneThenHeld) {
  for (const OnDead on_dead : {OnDead::go_on, OnDead::block, OnDead::bury_key}) {
    destination_.on_dead = on_dead;
    Undelivered row{.seq = 1, .key = 7, .attempts = 2, .sending = Undelivered::Sending::yes};
    for (int crash = 1; crash <= 3; ++crash) {
      row = verdict_after_crash(destination_, row).row;
      EXPECT_EQ(Standing::retrying, row.standing);
      EXPECT_TRUE(row.blocks);
      EXPECT_EQ(crash, row.crashes);
      EXPECT_EQ(crash - 1, row.blamed);
      EXPECT_EQ(Undelivered::Sending::no, row.sending);
      EXPECT_EQ(0ms, row.wait);  // It has its control to wait for.
      row.sending = Undelivered::Sending::on_trial;
    }
    const Verdict verdict = verdict_after_crash(destination_, row);
    EXPECT_EQ(Standing::held, verdict.row.standing);
    EXPECT_EQ(on_dead != OnDead::go_on, verdict.row.blocks);
    EXPECT_FALSE(verdict.bury_key);
    // One attempt that is survived clears it.
    const Undelivered survived = waybill::verdict(destination_, event_, row, {1, Kind::retry, "why"}, 0.5).row;
    EXPECT_EQ(0, survived.crashes);
    EXPECT_EQ(0, survived.blamed);
  }
}

// Whether it was under way among others, or for long: a death that may have come from outside is no attempt either.
TEST_F(VerdictTest, ADeathThatDoesNotCountNeitherHoldsNorBuriesAnything) {
  destination_.retry.attempts = 2;
  Undelivered row{.seq = 1, .key = 7, .attempts = 2, .blamed = 2};
  for (int crash = 1; crash <= 100; ++crash) {
    row.sending = Undelivered::Sending::yes;
    row.attempts = 2;
    row = verdict_after_crash(destination_, row).row;
    ASSERT_EQ(Standing::retrying, row.standing);
    ASSERT_EQ(crash, row.crashes);
    ASSERT_EQ(2, row.blamed);
    ASSERT_EQ(1, row.attempts);
  }
}

TEST_F(VerdictTest, ABreakOfTheStoreCountsAgainstNobody) {
  const Undelivered row{
      .seq = 1, .key = 7, .attempts = 12, .crashes = 2, .blamed = 1, .sending = Undelivered::Sending::on_trial};
  const Verdict verdict = verdict_after_break(destination_, row, 0.5);
  EXPECT_EQ(Standing::retrying, verdict.row.standing);
  EXPECT_EQ(2, verdict.row.crashes);
  EXPECT_EQ(1, verdict.row.blamed);
  EXPECT_EQ(11, verdict.row.attempts);
  EXPECT_EQ(Undelivered::Sending::no, verdict.row.sending);
}

TEST_F(VerdictTest, WhereNothingIsSentTwiceACrashHoldsTheEvent) {
  destination_.on_unknown = OnUnknown::hold;
  const Undelivered row{.seq = 1, .key = 7, .attempts = 1, .sending = Undelivered::Sending::yes};
  EXPECT_EQ(Standing::held, verdict_after_crash(destination_, row).row.standing);
}

TEST_F(VerdictTest, ErrorsAreBoundedBetweenCharacters) {
  std::string reason;
  while (reason.size() < 2'500) reason += "\u00e4";
  reason.insert(0, "x");
  const Verdict verdict = waybill::verdict(destination_, event_, {.seq = 1}, {1, Kind::retry, reason}, 0.5);
  EXPECT_EQ(1'999U, verdict.row.error.size());
}

}  // namespace
}  // namespace waybill
