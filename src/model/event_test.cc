#include "waybill/event.h"

#include <chrono>

#include <gtest/gtest.h>

#include "model/count_text.h"
#include "model/key_hash.h"

namespace waybill {
namespace {

TEST(EventId, IsVersion7AndGrows) {
  EventId last;
  for (int i = 0; i < 10'000; ++i) {
    const EventId id = EventId::make();
    ASSERT_LT(last, id);
    ASSERT_EQ(0x70, id.bytes[6] & 0xF0);
    ASSERT_EQ(0x80, id.bytes[8] & 0xC0);
    last = id;
  }
}

TEST(EventId, CarriesItsTime) {
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  const EventId id = EventId::make();
  std::int64_t milliseconds = 0;
  for (std::size_t i = 0; i < 6; ++i) milliseconds = milliseconds << 8 | id.bytes[i];
  EXPECT_NEAR(static_cast<double>(now), static_cast<double>(milliseconds), 1000.0);
}

TEST(EventId, SpellsAndReads) {
  const auto id = EventId::parse("018F3C1E-7a00-7abc-8def-0123456789ab");
  ASSERT_TRUE(id);
  EXPECT_EQ("018f3c1e-7a00-7abc-8def-0123456789ab", id->to_string());
  for (const char* text : {"", "018f3c1e", "018f3c1e-7a00-7abc-8def-0123456789a",
                           "018f3c1e-7a00-7abc-8def-0123456789ag", "018f3c1e07a00-7abc-8def-0123456789ab"})
    EXPECT_FALSE(EventId::parse(text)) << text;
}

TEST(OrderingKey, IsTheKeyThenTheAggregateThenNothing) {
  EXPECT_EQ("k", ordering_key({.aggregate_type = "order", .aggregate_id = "7", .key = "k"}));
  EXPECT_EQ("order/7", ordering_key({.aggregate_type = "order", .aggregate_id = "7"}));
  EXPECT_EQ("", ordering_key({}));
}

TEST(KeyHash, TellsTenantsAndKeysApart) {
  const EventView order{.tenant = "a", .aggregate_type = "order", .aggregate_id = "7"};
  EXPECT_EQ(0U, key_hash({.tenant = "a"}));
  EXPECT_EQ(key_hash(order), key_hash({.tenant = "a", .key = "order/7"}));
  EXPECT_NE(key_hash(order), key_hash({.tenant = "b", .aggregate_type = "order", .aggregate_id = "7"}));
  EXPECT_NE(key_hash(order), key_hash({.tenant = "a", .aggregate_type = "order", .aggregate_id = "8"}));
}

TEST(CountText, SaysWhenThereMayBeMore) {
  EXPECT_EQ("17", count_text({17, true}));
  EXPECT_EQ("10000+", count_text({10'000, false}));
}

}  // namespace
}  // namespace waybill
