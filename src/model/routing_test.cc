#include "model/routing.h"

#include <gtest/gtest.h>

namespace waybill {
namespace {

TEST(Pattern, StarStandsForAnyText) {
  EXPECT_TRUE(matches("patient.*", "patient.checked-in"));
  EXPECT_TRUE(matches("patient.*", "patient."));
  EXPECT_FALSE(matches("patient.*", "patient"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*.paid", "order.eu.paid"));
  EXPECT_TRUE(matches("a*b*c", "a-b-b-c"));
  EXPECT_FALSE(matches("a*b*c", "a-b-b-d"));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_TRUE(matches("", ""));
}

TEST(Pattern, Security48_IsNotSlowOnHostileInput) {
  const std::string text(20'000, 'a');
  EXPECT_FALSE(matches("*a*a*a*a*a*a*a*a*a*a*b", text));
}

TEST(Match, NeedsOnePatternOfEachList) {
  const EventView event{.tenant = "north", .topic = "room.opened", .type = "opened", .aggregate_type = "room"};
  EXPECT_TRUE(matches(Match{}, event));
  EXPECT_TRUE(matches(Match{.topic = {"patient.*", "room.*"}}, event));
  EXPECT_FALSE(matches(Match{.topic = {"patient.*"}}, event));
  EXPECT_FALSE(matches(Match{.topic = {"room.*"}, .tenant = {"south"}}, event));
  EXPECT_TRUE(
      matches(Match{.topic = {"room.*"}, .type = {"opened"}, .tenant = {"n*"}, .aggregate_type = {"room"}}, event));
}

TEST(Match, SaysWhyNot) {
  const EventView event{.tenant = "north", .topic = "room.opened", .type = "opened"};
  EXPECT_EQ(mismatch(Match{.topic = {"room.*"}}, event), "");
  EXPECT_EQ(mismatch(Match{.topic = {"patient.*", "order.*"}}, event),
            "topic 'room.opened' is none of 'patient.*', 'order.*'");
  EXPECT_EQ(mismatch(Match{.aggregate_type = {"room"}}, event), "aggregate_type '' is none of 'room'");
}

}  // namespace
}  // namespace waybill
