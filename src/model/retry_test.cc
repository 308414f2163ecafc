#include "model/retry.h"

#include <gtest/gtest.h>

namespace waybill {
namespace {

using namespace std::chrono_literals;

TEST(RetryDelay, DoublesUpToTheCap) {
  const RetryPolicy policy{.first_delay = 1s, .max_delay = 10min};
  EXPECT_EQ(999ms, retry_delay(policy, 1, 0.9999));
  EXPECT_EQ(2000ms, retry_delay(policy, 2, 1.0));
  EXPECT_EQ(4000ms, retry_delay(policy, 3, 1.0));
  EXPECT_EQ(10min, retry_delay(policy, 11, 1.0));
  EXPECT_EQ(10min, retry_delay(policy, 1'000'000, 1.0));
}

TEST(RetryDelay, JitterIsFull) {
  const RetryPolicy policy{.first_delay = 1s, .max_delay = 10min};
  EXPECT_EQ(0ms, retry_delay(policy, 5, 0.0));
  EXPECT_EQ(8s, retry_delay(policy, 5, 0.5));
}

}  // namespace
}  // namespace waybill
