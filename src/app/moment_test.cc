#include "app/moment.h"

#include <gtest/gtest.h>

#include "waybill/error.h"

#include "app/aggregate_text.h"

namespace waybill::app {
namespace {

using namespace std::chrono_literals;

TEST(ParseMoment, TakesTimesAndDistances) {
  const Time now(1'000'000s);
  EXPECT_EQ(Time(0s), parse_moment("--since", "1970-01-01T00:00:00Z", now, Direction::past));
  EXPECT_EQ(now - 10min, parse_moment("--since", "10m", now, Direction::past));
  EXPECT_EQ(now + 24h, parse_moment("--expires-at", "1d", now, Direction::future));
  EXPECT_THROW(parse_moment("--since", "yesterday", now, Direction::past), Error);
}

TEST(AgeText, TakesTheLargestUnitThatFits) {
  EXPECT_EQ("0s", age_text(-5s));
  EXPECT_EQ("119s", age_text(119s));
  EXPECT_EQ("2m", age_text(120s));
  EXPECT_EQ("2h", age_text(2h));
  EXPECT_EQ("47h", age_text(47h));
  EXPECT_EQ("2d", age_text(48h));
}

TEST(CountText, SaysWhenThereMayBeMore) {
  EXPECT_EQ("17", count_text({17, true}));
  EXPECT_EQ("10000+", count_text({10'000, false}));
}

TEST(ParseAggregate, SplitsAtTheFirstSlash) {
  EXPECT_EQ("order", parse_aggregate("order/o/7").type);
  EXPECT_EQ("o/7", parse_aggregate("order/o/7").id);
  for (const auto* wrong : {"order", "/7", "order/", ""}) EXPECT_THROW(parse_aggregate(wrong), Error) << wrong;
}

}  // namespace
}  // namespace waybill::app
