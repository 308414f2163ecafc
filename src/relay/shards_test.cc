#include "relay/shards.h"

#include <gtest/gtest.h>

#include "relay/lanes.h"

namespace waybill {
namespace {

Lease lease(std::int32_t shard, std::int64_t term) {
  return {.destination = "out", .shard = shard, .term = term};
}

class ShardsTest : public testing::Test {
 protected:
  void open(std::int32_t shard, std::int64_t term) { shards_.open(shard, lease(shard, term), lanes_.open({}, {}, {})); }

  Lanes lanes_;
  Shards shards_;
};

TEST_F(ShardsTest, AGrantOfWhatIsOpenChangesNothing) {
  shards_.grant({lease(1, 5)});
  EXPECT_EQ(1U, shards_.follow().orders);
  open(1, 5);
  shards_.grant({lease(1, 5), lease(1, 4)});
  EXPECT_EQ(0U, shards_.follow().orders);
  EXPECT_EQ(Shard::Stage::open, shards_.find(1)->stage);
  EXPECT_EQ(std::vector{lease(1, 5)}, shards_.held());
}

TEST_F(ShardsTest, WhatWasLostAndWonAgainIsBegunAnew) {
  shards_.grant({lease(1, 5)});
  shards_.follow();
  open(1, 5);
  shards_.grant({lease(1, 7)});
  const auto followed = shards_.follow();
  ASSERT_EQ(1U, followed.forgotten.size());
  EXPECT_NE(nullptr, followed.forgotten[0].lane);
  EXPECT_EQ(Shard::Stage::granted, shards_.find(1)->stage);
  EXPECT_EQ(std::vector{lease(1, 7)}, shards_.held());
}

TEST_F(ShardsTest, ABrokenOneStaysBrokenUnderANewerTermOfOurs) {
  shards_.grant({lease(1, 5)});
  shards_.follow();
  open(1, 5);
  shards_.break_all();
  shards_.keep_only({lease(1, 6)});
  shards_.grant({lease(1, 6)});
  EXPECT_TRUE(shards_.follow().forgotten.empty());
  EXPECT_EQ(Shard::Stage::broken, shards_.find(1)->stage);
  EXPECT_EQ(6, shards_.find(1)->lease.term);
}

TEST_F(ShardsTest, AnOlderTermOfOursIsNoLossAndANewerOneIs) {
  shards_.grant({lease(1, 5), lease(2, 5), lease(3, 5)});
  shards_.follow();
  for (int shard = 1; shard <= 3; ++shard) open(shard, 6);
  shards_.keep_only({lease(1, 5), lease(2, 7)});
  EXPECT_EQ(2U, shards_.follow().forgotten.size());
  EXPECT_EQ(std::vector{lease(1, 6)}, shards_.held());
}

TEST_F(ShardsTest, OrdersForWhatIsLostByNowAreVoid) {
  shards_.grant({lease(1, 5), lease(2, 5)});
  shards_.give_back({1});
  shards_.keep_only({lease(2, 5)});
  shards_.grant({lease(1, 7)});
  shards_.follow();
  EXPECT_EQ((std::vector{lease(1, 7), lease(2, 5)}), shards_.held());
  EXPECT_EQ((std::vector{lease(1, 7), lease(2, 5)}), shards_.kept());
  shards_.give_back({1});
  EXPECT_EQ((std::vector{lease(2, 5)}), shards_.kept());
  shards_.follow();
  EXPECT_EQ((std::vector{lease(2, 5)}), shards_.kept());
}

TEST_F(ShardsTest, AReportDoesNotHideWhatWasOrderedMeanwhile) {
  EXPECT_TRUE(shards_.report(true, true));
  EXPECT_FALSE(shards_.report(true, true));
  shards_.news();
  EXPECT_FALSE(shards_.idle());
  EXPECT_FALSE(shards_.report(true, true));
  EXPECT_FALSE(shards_.waits());
  shards_.follow();
  EXPECT_TRUE(shards_.report(true, true));
  EXPECT_TRUE(shards_.idle());
}

TEST(LanesTest, SerialsComeRoundAndPassOverThoseInUse) {
  Lanes lanes;
  Lane& first = lanes.open({.lease = {.shard = 1}}, {}, {});
  const std::uint64_t ticket = lanes.ticket(first, 3);
  for (int i = 0; i < 200'000; ++i) lanes.drop(lanes.open({.lease = {.shard = 2}}, {}, {}));
  const auto answered = lanes.answered(ticket);
  EXPECT_EQ(&first, answered.lane);
  EXPECT_EQ(3U, answered.position);
}

}  // namespace
}  // namespace waybill
