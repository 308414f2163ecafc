#include "app/dialogue.h"

#include <gtest/gtest.h>

#include "waybill/error.h"

namespace waybill::app {
namespace {

TEST(Counted, ReadsAsPeopleWrite) {
  EXPECT_EQ("0 events", counted(0, "event"));
  EXPECT_EQ("1 dead letter", counted(1, "dead letter"));
  EXPECT_EQ("999 events", counted(999, "event"));
  EXPECT_EQ("1,204 dead letters", counted(1'204, "dead letter"));
  EXPECT_EQ("12,345,678 events", counted(12'345'678, "event"));
  EXPECT_EQ("10,000+ events", counted(Count{.value = 10'000, .exact = false}, "event"));
  EXPECT_EQ("1+ events", counted(Count{.value = 1, .exact = false}, "event"));
}

TEST(ParseRate, TakesANumberPerSecond) {
  EXPECT_EQ(0, parse_rate(""));
  EXPECT_EQ(100, parse_rate("100/s"));
  EXPECT_EQ(7, parse_rate("7"));
  for (const auto* wrong : {"0", "-1", "x", "/s", "1/m", "1.5/s", "10/s ", "99999999999"})
    EXPECT_THROW(parse_rate(wrong), Error) << wrong;
}

TEST(OperationId, IsNewUnlessOneIsContinued) {
  const EventId id = EventId::make();
  EXPECT_EQ(id, operation_id(id.to_string()));
  EXPECT_LT(id, operation_id(""));
  EXPECT_THROW(operation_id("7"), Error);
}

TEST(OperatorName, IsTheUserUnlessGiven) {
  EXPECT_EQ("me", operator_name({{"USER", "ada"}}, "me"));
  EXPECT_TRUE(operator_name({{"USER", "ada"}}, "").starts_with("ada@"));
  EXPECT_TRUE(operator_name({{"USER", ""}, {"LOGNAME", "ben"}}, "").starts_with("ben@"));
}

}  // namespace
}  // namespace waybill::app
