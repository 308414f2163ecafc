#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/gmock.h"

namespace waybill {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Event placed() {
  Event event{.topic = "order.placed", .aggregate = {"order", "o-7"}, .version = 3, .payload = R"({"a": 1, "b": [2]})"};
  event.metadata = R"({"actor":"ann","source":"shop"})";
  event.headers = {{.name = "traceparent", .value = "00-1"}, {.name = "x", .value = "y"}};
  return event;
}

TEST(Difference, WhatIsNotSetMayBeAnything) {
  EXPECT_EQ("", difference(placed(), Event{}));
  EXPECT_EQ("", difference(placed(), {.topic = "order.placed", .payload = R"({"b":[2],"a":1})"}));
  EXPECT_EQ("", difference(placed(), {.metadata = R"({"source":"shop"})", .headers = {{"x", "y"}}}));
  EXPECT_EQ("", difference(placed(), placed()));
}

TEST(Difference, SaysWhatIsDifferent) {
  EXPECT_EQ("topic is order.placed, not order.paid; version is 3, not 4",
            difference(placed(), {.topic = "order.paid", .version = 4}));
  EXPECT_EQ(R"(payload is {"a": 1, "b": [2]}, not {"a":1})", difference(placed(), {.payload = R"({"a":1})"}));
  EXPECT_EQ("tenant is default, not north; id is none, not 018f3c1e-7a00-7abc-8def-0123456789ab",
            difference(placed(), {.tenant = "north", .id = EventId::parse("018f3c1e-7a00-7abc-8def-0123456789ab")}));
  EXPECT_EQ(R"(metadata is {"actor":"ann","source":"shop"}, not {"actor":"bob"}; header y is none, not z)",
            difference(placed(), {.metadata = R"({"actor":"bob"})", .headers = {{"y", "z"}}}));
  EXPECT_EQ("payload_bytes is none, not \x01", difference(placed(), {.payload_bytes = "\x01"}));
  EXPECT_NE("", difference(placed(), {.aggregate = {"order", "o-8"}}));
  EXPECT_NE("", difference(placed(), {.payload = "no JSON"}));
}

TEST(Difference, EventsAreTheseAndNoOthers) {
  const Event other{.topic = "order.paid"};
  EXPECT_EQ("", differences({placed(), other}, {{.topic = "order.placed"}, {.topic = "order.paid"}}));
  EXPECT_EQ("event 1: topic is order.placed, not order.paid\nevent 2 was not wanted: topic order.paid\n",
            differences({placed(), other}, {other}));
  EXPECT_EQ("event 1 is missing: topic order.paid\n", differences({}, {other}));
}

TEST(Difference, MatchersForGoogleMock) {
  EXPECT_THAT(placed(), EventLike({.topic = "order.placed"}));
  EXPECT_THAT(placed(), Not(EventLike({.topic = "order.paid"})));
  testing::StringMatchResultListener listener;
  EXPECT_FALSE(testing::ExplainMatchResult(EventLike({.topic = "order.paid"}), placed(), &listener));
  EXPECT_THAT(listener.str(), HasSubstr("topic is order.placed"));
  EXPECT_THAT(testing::PrintToString(placed()), StartsWith("topic order.placed, version 3, aggregate order/o-7, "));
}

}  // namespace
}  // namespace waybill
