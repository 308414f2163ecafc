#include "sink/nats/flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace waybill::nats {
namespace {

using namespace std::chrono_literals;

class FlightTest : public testing::Test {
 protected:
  std::uint64_t add(std::uint64_t ticket, std::chrono::milliseconds at = 0ms) {
    const std::uint64_t number = flight_.next_number();
    flight_.add({.ticket = ticket}, Steady{} + at);
    return number;
  }
  std::uint64_t take(std::uint64_t number) {
    const auto parcel = flight_.take(number);
    return parcel ? parcel->ticket : 0;
  }

  Flight flight_;
};

TEST_F(FlightTest, AnswersByNumberInAnyOrderOnce) {
  const auto a = add(10), b = add(20), c = add(30);
  EXPECT_EQ(20U, take(b));
  EXPECT_EQ(0U, take(b));
  EXPECT_EQ(10U, take(a));
  EXPECT_EQ(0U, take(a));
  EXPECT_EQ(1U, flight_.size());
  const auto d = add(40);
  EXPECT_EQ(40U, take(d));
  EXPECT_EQ(30U, take(c));
  EXPECT_EQ(0U, flight_.size());
  EXPECT_EQ(0U, take(d + 1));
  EXPECT_EQ(0U, take(0));
}

TEST_F(FlightTest, NeverGivesANumberTwice) {
  const auto a = add(1);
  take(a);
  EXPECT_GT(add(2), a);
}

TEST_F(FlightTest, KnowsTheOldest) {
  const auto a = add(1, 10ms);
  add(2, 20ms);
  EXPECT_EQ(Steady{} + 10ms, flight_.oldest());
  take(a);
  EXPECT_EQ(Steady{} + 20ms, flight_.oldest());
  EXPECT_EQ(2U, flight_.take_oldest().ticket);
  EXPECT_EQ(0U, flight_.size());
}

TEST_F(FlightTest, TakesThoseThatAreMeant) {
  add(1);
  const auto b = add(2);
  add(3);
  EXPECT_THAT(flight_.take_if([](const Parcel& parcel) { return parcel.ticket != 2; }), testing::SizeIs(2));
  EXPECT_EQ(1U, flight_.size());
  EXPECT_EQ(2U, take(b));
}

}  // namespace
}  // namespace waybill::nats
