#include "base/metrics.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace waybill {
namespace {

using namespace std::chrono_literals;
using Type = Exposition::Type;
using Label = std::pair<std::string_view, std::string_view>;

TEST(HistogramTest, ABoundBelongsToItsBucket) {
  Histogram histogram;
  for (const auto took : {-5us, 0us, 1'000us, 1'001us, 900'000'000us, 900'000'001us}) histogram.observe(took);
  const auto counts = histogram.counts();
  EXPECT_EQ(3U, counts[0]);
  EXPECT_EQ(1U, counts[1]);
  EXPECT_EQ(1U, counts[Histogram::bounds.size() - 1]);
  EXPECT_EQ(1U, counts[Histogram::bounds.size()]);
  EXPECT_EQ(6U, std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  EXPECT_EQ(1'800'000'001us + 2'001us, histogram.sum());
}

TEST(ExpositionTest, WritesFamiliesAndSamples) {
  Exposition out;
  out.family("waybill_up", Type::gauge, "Is it \"up\"?\nA line with a \\.");
  out.sample({}, std::int64_t{-1});
  out.family("waybill_done_total", Type::counter, "Done.");
  out.sample(std::vector<Label>{{"destination", "a\"b\\c\nd"}, {"outcome", "retry"}},
             std::uint64_t{18446744073709551615U});
  out.sample(std::vector<Label>{{"destination", "b"}}, 0.5);
  EXPECT_EQ(
      "# HELP waybill_up Is it \"up\"?\\nA line with a \\\\.\n"
      "# TYPE waybill_up gauge\n"
      "waybill_up -1\n"
      "# HELP waybill_done_total Done.\n"
      "# TYPE waybill_done_total counter\n"
      "waybill_done_total{destination=\"a\\\"b\\\\c\\nd\",outcome=\"retry\"} 18446744073709551615\n"
      "waybill_done_total{destination=\"b\"} 0.5\n",
      out.take());
}

TEST(ExpositionTest, BucketsAddUp) {
  Exposition out;
  out.family("waybill_publish_seconds", Type::histogram, "Time.");
  out.histogram(std::vector<Label>{{"destination", "a"}},
                std::vector<Exposition::Bucket>{{.upto = 0.001, .count = 2}, {.upto = 1, .count = 3}}, 6, 12.5);
  EXPECT_EQ(
      "# HELP waybill_publish_seconds Time.\n"
      "# TYPE waybill_publish_seconds histogram\n"
      "waybill_publish_seconds_bucket{destination=\"a\",le=\"0.001\"} 2\n"
      "waybill_publish_seconds_bucket{destination=\"a\",le=\"1\"} 5\n"
      "waybill_publish_seconds_bucket{destination=\"a\",le=\"+Inf\"} 6\n"
      "waybill_publish_seconds_sum{destination=\"a\"} 12.5\n"
      "waybill_publish_seconds_count{destination=\"a\"} 6\n",
      out.take());
}

}  // namespace
}  // namespace waybill
