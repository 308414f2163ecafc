#include "sink/nats/composer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message/binding.h"

namespace waybill::nats {
namespace {

using testing::HasSubstr;

class ComposerTest : public testing::Test {
 protected:
  Preview preview(const std::string& stream = "") {
    NatsOptions options;
    options.subject = Address("events.{type}", addresses::subject);
    options.encode = encoder({}, bindings::nats);
    options.stream.name = stream;
    return Composer(options).preview(event_);
  }

  EventView event_{.id = *EventId::parse("018f3c1e-0000-7000-8000-000000000001"),
                   .topic = "orders",
                   .type = "order.paid",
                   .payload = "{}",
                   .content_type = "application/json",
                   .metadata = "{}",
                   .headers = "{}"};
};

TEST_F(ComposerTest, AddressesAndNamesAMessage) {
  const Preview made = preview();
  EXPECT_EQ("", made.refusal);
  EXPECT_EQ("events.order.paid", made.address);
  EXPECT_EQ("018f3c1e-0000-7000-8000-000000000001", made.message.headers.find("Nats-Msg-Id"));
  EXPECT_EQ("", made.message.headers.find("Nats-Expected-Stream"));
  EXPECT_EQ("ORDERS", preview("ORDERS").message.headers.find("Nats-Expected-Stream"));
}

TEST_F(ComposerTest, AnEventsOwnAddressWins) {
  event_.routing_key = "special.delivery";
  EXPECT_EQ("special.delivery", preview().address);
  event_.routing_key = "special.*";
  EXPECT_NE("", preview().refusal);
}

// 58: or the stream would take it for a repetition, and drop it.
TEST_F(ComposerTest, Row58_ARedriveHasAnotherMessageIdAndTheSameEventId) {
  event_.redrives = 2;
  const Preview made = preview();
  EXPECT_EQ("018f3c1e-0000-7000-8000-000000000001-r2", made.message.headers.find("Nats-Msg-Id"));
  EXPECT_EQ("018f3c1e-0000-7000-8000-000000000001", made.message.headers.find("ce-id"));
}

TEST_F(ComposerTest, AnEventCannotGiveOrdersToJetStream) {
  event_.headers = R"({"Nats-Rollup":"all"})";
  EXPECT_THAT(preview().refusal, HasSubstr("Nats-Rollup"));
}

}  // namespace
}  // namespace waybill::nats
