#include "consume/delay.h"

#include <gtest/gtest.h>

namespace waybill::consume {
namespace {

using namespace std::chrono_literals;

TEST(DelayTest, DoublesUpToTheMostAndIsNeverLessThanHalf) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_GE(delay_after(1, 100ms, 1'000ms), 50ms);
    EXPECT_LE(delay_after(1, 100ms, 1'000ms), 100ms);
    EXPECT_GE(delay_after(3, 100ms, 1'000ms), 200ms);
    EXPECT_LE(delay_after(3, 100ms, 1'000ms), 400ms);
    EXPECT_GE(delay_after(1'000, 100ms, 1'000ms), 500ms);
    EXPECT_LE(delay_after(1'000, 100ms, 1'000ms), 1'000ms);
  }
}

}  // namespace
}  // namespace waybill::consume
