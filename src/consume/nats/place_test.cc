#include "consume/nats/place.h"

#include <gtest/gtest.h>

namespace waybill::nats {
namespace {

TEST(PlaceTest, IsReadInBothForms) {
  for (const char* subject : {"$JS.ACK.ORDERS.stock.3.42.7.1700000000123456789.5",
                              "$JS.ACK.hub.ACCOUNT.ORDERS.stock.3.42.7.1700000000123456789.5",
                              "$JS.ACK._.ACCOUNT.ORDERS.stock.3.42.7.1700000000123456789.5.random"}) {
    const auto place = read_place(subject);
    ASSERT_TRUE(place) << subject;
    EXPECT_EQ(3, place->deliveries);
    EXPECT_EQ(42U, place->sequence);
    EXPECT_EQ(Time(std::chrono::microseconds(1'700'000'000'123'456)), place->stored);
  }
}

TEST(PlaceTest, AnythingElseIsNone) {
  for (const char* subject : {"", "_INBOX.x", "$JS.ACK.", "$JS.ACK.a.b.c", "$JS.ACK.O.s.x.42.7.17.5",
                              "$JS.ACK.O.s.3.42.7.17", "$JS.ACK.O.s.3.42.7.17.5.6"})
    EXPECT_FALSE(read_place(subject)) << subject;
}

}  // namespace
}  // namespace waybill::nats
