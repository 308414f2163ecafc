#include "consume/backlog.h"

#include <gtest/gtest.h>

namespace waybill::consume {
namespace {

using namespace std::chrono_literals;

class BacklogTest : public testing::Test {
 protected:
  void come(std::uint64_t ticket, std::optional<std::string> key) {
    backlog_.add({.ticket = ticket, .delivery = {.id = "m-" + std::to_string(ticket), .key = std::move(key)}}, now_);
  }
  // Whose turn it is; 0: nobody's.
  std::uint64_t turn() {
    const Waiting* next = backlog_.next(now_);
    return next ? next->ticket : 0;
  }
  void fail(std::chrono::milliseconds delay) {
    Waiting* next = backlog_.next(now_);
    ++next->failures;
    ++next->tries;
    next->due = now_ + delay;
  }

  Backlog backlog_;
  Steady now_{1h};
};

TEST_F(BacklogTest, IsHandledInItsOrder) {
  EXPECT_EQ(0U, turn());
  EXPECT_EQ(Steady::max(), backlog_.due());
  for (std::uint64_t i = 1; i <= 3; ++i) come(i, "a");
  for (std::uint64_t i = 1; i <= 3; ++i) {
    EXPECT_LE(backlog_.due(), now_);
    EXPECT_EQ(i, turn());
    backlog_.settle(i);
  }
  EXPECT_EQ(0U, backlog_.size());
}

TEST_F(BacklogTest, WhatFailedIsNotOvertakenByItsKey) {
  come(1, "a");
  come(2, "a");
  come(3, "b");
  fail(1s);
  EXPECT_EQ(3U, turn()) << "other keys go on";
  backlog_.settle(3);
  EXPECT_EQ(0U, turn());
  EXPECT_EQ(now_ + 1s, backlog_.due());
  EXPECT_EQ(1U, backlog_.retrying());
  now_ += 1s;
  EXPECT_EQ(1U, turn());
  backlog_.settle(1);
  EXPECT_EQ(2U, turn());
}

TEST_F(BacklogTest, WhatTellsNoKeyWaitsForItsLike) {
  come(1, std::nullopt);
  come(2, std::nullopt);
  come(3, "a");
  fail(1s);
  EXPECT_EQ(3U, turn());
  backlog_.settle(3);
  EXPECT_EQ(0U, turn());
}

TEST_F(BacklogTest, WhatHasNoKeyWaitsForNobody) {
  come(1, "");
  come(2, "");
  fail(1s);
  EXPECT_EQ(2U, turn());
}

TEST_F(BacklogTest, NeitherWhatFailsNorWhatComesKeepsTheOtherFromItsTurn) {
  come(1, "a");
  fail(1ms);
  now_ += 2ms;
  come(2, "b");
  come(3, "b");
  EXPECT_EQ(1U, turn()) << "due before the others came";
  fail(1ms);
  now_ += 2ms;
  EXPECT_EQ(2U, turn()) << "now they were here before it is due again";
  backlog_.settle(2);
  EXPECT_EQ(3U, turn());
  backlog_.settle(3);
  come(4, "b");
  EXPECT_EQ(1U, turn());
}

TEST_F(BacklogTest, WhatComesAgainHasFailedAsOftenAsBefore) {
  come(1, "a");
  come(2, "b");
  fail(0ms);
  fail(0ms);
  backlog_.forget();
  EXPECT_EQ(0U, backlog_.size());
  come(2, "b");
  EXPECT_EQ(0, backlog_.next(now_)->failures);
  backlog_.settle(2);
  backlog_.forget();  // Before the other came again.
  come(1, "a");
  EXPECT_EQ(2, backlog_.next(now_)->failures);
  EXPECT_EQ(2, backlog_.next(now_)->tries);
}

}  // namespace
}  // namespace waybill::consume
