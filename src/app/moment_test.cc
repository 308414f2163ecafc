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

TEST(ParseAggregate, SplitsAtTheFirstSlash) {
  EXPECT_EQ("order", parse_aggregate("order/o/7").type);
  EXPECT_EQ("o/7", parse_aggregate("order/o/7").id);
  for (const auto* wrong : {"order", "/7", "order/", ""}) EXPECT_THROW(parse_aggregate(wrong), Error) << wrong;
}

}  // namespace
}  // namespace waybill::app
