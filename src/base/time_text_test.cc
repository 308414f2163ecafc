#include "base/time_text.h"

#include <gtest/gtest.h>

namespace waybill {
namespace {

using namespace std::chrono_literals;

TEST(TimeText, WritesAndReadsBack) {
  const Time time = std::chrono::sys_days(std::chrono::year(2026) / 2 / 19) + 8h + 30min + 5s + 123456us;
  EXPECT_EQ("2026-02-19T08:30:05.123456Z", to_rfc3339(time));
  EXPECT_EQ(time, parse_rfc3339("2026-02-19T08:30:05.123456Z"));
  EXPECT_EQ(time, parse_rfc3339("2026-02-19T10:30:05.123456789+02:00"));
  EXPECT_EQ(time, parse_rfc3339("2026-02-19 03:00:05.123456-05:30"));
}

TEST(TimeText, WritesYearsThatNobodyReads) {
  const auto new_year = [](int year) { return to_rfc3339(std::chrono::sys_days(std::chrono::year(year) / 1 / 1)); };
  EXPECT_EQ("0007-01-01T00:00:00.000000Z", new_year(7));
  EXPECT_EQ("12026-01-01T00:00:00.000000Z", new_year(12'026));
  EXPECT_EQ("-044-01-01T00:00:00.000000Z", new_year(-44));
}

TEST(TimeText, RefusesWhatIsNoTime) {
  for (const char* text : {"", "2026-02-30T00:00:00Z", "2026-02-19T24:00:00Z", "2026-02-19T08:30:00", "2026-02-19",
                           "2026-02-19T08:30:00.Z", "2026-02-19T08:30:00Z ", "yesterday"})
    EXPECT_EQ(std::nullopt, parse_rfc3339(text)) << text;
}

TEST(TimeText, Durations) {
  EXPECT_EQ(1500ms, parse_duration("1500ms"));
  EXPECT_EQ(2s, parse_duration("2s"));
  EXPECT_EQ(10min, parse_duration("10m"));
  EXPECT_EQ(7 * 24h, parse_duration("7d"));
  for (const char* text : {"", "5", "s", "-1s", "1.5s", "1 s", "99999999999999999999s", "9999999d", "1w"})
    EXPECT_EQ(std::nullopt, parse_duration(text)) << text;
  for (const auto duration : {0ms, 1ms, 1500ms, 2000ms, 600'000ms, 604'800'000ms})
    EXPECT_EQ(duration, parse_duration(to_text(duration)));
  EXPECT_EQ("7d", to_text(7 * 24h));
}

TEST(AgeText, TakesTheLargestUnitThatFits) {
  EXPECT_EQ("0s", age_text(-5s));
  EXPECT_EQ("119s", age_text(119s));
  EXPECT_EQ("2m", age_text(120s));
  EXPECT_EQ("2h", age_text(2h));
  EXPECT_EQ("47h", age_text(47h));
  EXPECT_EQ("2d", age_text(48h));
}

}  // namespace
}  // namespace waybill
