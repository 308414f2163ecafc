#include "waybill/domain_event.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace waybill {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct OrderPlaced {
  static constexpr std::string_view type_name = "order.placed";
  static constexpr int schema_version = 3;
  static constexpr std::string_view topic = "orders";
  std::string order{};
  std::string currency{};
  int lines = 0;

  std::string to_json() const { return json({{"order", order}, {"currency", currency}, {"lines", lines}}).dump(); }
  static OrderPlaced from_json(std::string_view text) {
    const auto from = json::parse(text);
    return {.order = from.at("order"), .currency = from.at("currency"), .lines = from.at("lines")};
  }
};

struct OrderPaid {
  static constexpr std::string_view type_name = "order.paid";
  std::string to_json() const { return "{}"; }
};
static_assert(ReadableEvent<OrderPlaced>);
static_assert(DomainEvent<OrderPaid> && !ReadableEvent<OrderPaid>);
static_assert(!DomainEvent<std::string>);
static_assert(schema_version_of<OrderPaid>() == 1 && topic_of<OrderPaid>() == "order.paid");

RecordedEvent recorded(const std::string& type, const std::string& payload, std::optional<std::int32_t> form) {
  RecordedEvent event;
  event.id = EventId::make();
  event.type = type;
  event.payload = payload;
  event.schema_version = form;
  return event;
}

TEST(DomainEvent, BecomesAnEvent) {
  const Event event = to_event(OrderPlaced{.order = "o-7", .currency = "EUR", .lines = 2});
  EXPECT_EQ("orders", event.topic);
  EXPECT_EQ("order.placed", event.type);
  EXPECT_EQ(3, event.schema_version);
  EXPECT_EQ(R"({"currency":"EUR","lines":2,"order":"o-7"})", event.payload);
  EXPECT_TRUE(event.id && event.occurred_at);
  EXPECT_EQ("order.paid", to_event(OrderPaid{}).topic);
}

class HandlersTest : public testing::Test {
 protected:
  HandlersTest() {
    handlers.on<OrderPlaced>([](const OrderPlaced& placed, const RecordedEvent&, std::vector<std::string>& orders) {
      orders.push_back(placed.order + ' ' + placed.currency + ' ' + std::to_string(placed.lines));
    });
    const auto with = [](const char* name, const json& value) {
      return [=](std::string_view text) {
        auto changed = json::parse(text);
        changed[name] = value;
        return changed.dump();
      };
    };
    handlers.upcast("order.placed", 1, with("currency", "EUR")).upcast("order.placed", 2, with("lines", 1));
  }

  std::string failure(const RecordedEvent& event) {
    try {
      handlers.handle(event, seen);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  EventHandlers<std::vector<std::string>&> handlers;
  std::vector<std::string> seen;
};

TEST_F(HandlersTest, OldFormsAreBroughtUpStepByStep) {
  EXPECT_TRUE(handlers.handle(recorded("order.placed", R"({"order":"a"})", std::nullopt), seen));
  EXPECT_TRUE(handlers.handle(recorded("order.placed", R"({"order":"b"})", 1), seen));
  EXPECT_TRUE(handlers.handle(recorded("order.placed", R"({"order":"c","currency":"CHF"})", 2), seen));
  EXPECT_TRUE(handlers.handle(recorded("order.placed", R"({"order":"d","currency":"CHF","lines":7})", 3), seen));
  EXPECT_THAT(seen, testing::ElementsAre("a EUR 1", "b EUR 1", "c CHF 1", "d CHF 7"));
}

TEST_F(HandlersTest, AFormThatLeadsNowhereIsSaid) {
  EXPECT_THAT(failure(recorded("order.placed", "{}", 4)), HasSubstr("newer than the one that is known here: 3"));
  EXPECT_THAT(failure(recorded("order.placed", "{}", 0)), HasSubstr("form 0"));
  EXPECT_THAT(seen, testing::IsEmpty());
}

TEST_F(HandlersTest, AnUnknownTypeIsAClearFailure) {
  EXPECT_THROW(handlers.handle(recorded("order.lost", "{}", 1), seen), UnknownType);
  EXPECT_THAT(failure(recorded("order.lost", "{}", 1)), HasSubstr("'order.lost'"));
  handlers.ignore_others();
  EXPECT_FALSE(handlers.handle(recorded("order.lost", "{}", 1), seen));
  EXPECT_THAT(handlers.types(), testing::ElementsAre("order.placed"));
}

TEST_F(HandlersTest, ATypeHasOneHandler) {
  EXPECT_THROW(handlers.on<OrderPlaced>([](const OrderPlaced&, const RecordedEvent&, std::vector<std::string>&) {}),
               Error);
}

TEST(EventContext, IsThatOfTheInnermostScopeOfTheThread) {
  EXPECT_EQ("", to_event(OrderPaid{}).metadata);
  const EventContextScope outer({.source = "shop", .correlation_id = "c-1", .actor = "ann"});
  {
    const EventContextScope inner({.causation_id = "e-1", .actor = "bob", .traceparent = "00-aa-bb-01"});
    const Event event = to_event(OrderPaid{});
    EXPECT_EQ(R"({"source":"shop","correlation_id":"c-1","causation_id":"e-1","actor":"bob"})", event.metadata);
    ASSERT_EQ(2U, event.headers.size());
    EXPECT_EQ("correlation-id", event.headers[0].name);
    EXPECT_EQ("c-1", event.headers[0].value);
    EXPECT_EQ("traceparent", event.headers[1].name);
    std::thread([] { EXPECT_EQ("", EventContextScope::current().actor); }).join();
  }
  EXPECT_EQ("ann", EventContextScope::current().actor);
  EXPECT_EQ("", EventContextScope::current().causation_id);
}

TEST(EventContext, KeepsWhatTheEventHas) {
  const EventContextScope scope({.source = "shop", .actor = "ann", .traceparent = "new"});
  Event event;
  event.metadata = R"({"actor":"bob","z":1})";
  event.headers = {{"traceparent", "old"}};
  add_context(event);
  EXPECT_EQ(R"({"actor":"bob","z":1,"source":"shop"})", event.metadata);
  ASSERT_EQ(1U, event.headers.size());
  EXPECT_EQ("old", event.headers[0].value);
  event.metadata = "no JSON";
  add_context(event);
  EXPECT_EQ("no JSON", event.metadata);
}

TEST(EventContext, WhatIsInTheMetadataStaysAsItIsWritten) {
  const EventContextScope scope({.source = "a \"shop\""});
  const auto added = [](const std::string& metadata) {
    Event event;
    event.metadata = metadata;
    add_context(event);
    return event.metadata;
  };
  EXPECT_EQ(R"({ "n" : 123456789012345678901234567890, "n":1.50 ,"source":"a \"shop\""} )",
            added(R"({ "n" : 123456789012345678901234567890, "n":1.50 } )"));
  EXPECT_EQ(R"({"source":"a \"shop\""})", added(""));
  EXPECT_EQ(R"({ "source":"a \"shop\""})", added("{ }"));
  EXPECT_EQ(R"({"source":null})", added(R"({"source":null})"));
}

TEST(EventContext, ATraceIsOnePiece) {
  const EventContextScope outer({.correlation_id = "c-1", .traceparent = "outer", .tracestate = "of=outer"});
  const auto headers = [](std::vector<Header> own) {
    Event event;
    event.headers = std::move(own);
    add_context(event);
    std::string text;
    for (const auto& [name, value] : event.headers) text += name + '=' + value + ';';
    return text;
  };
  EXPECT_EQ("correlation-id=c-1;traceparent=outer;tracestate=of=outer;", headers({}));
  EXPECT_EQ("TraceParent=own;correlation-id=c-1;", headers({{"TraceParent", "own"}}));
  EXPECT_EQ("Correlation-ID=own;tracestate=own;", headers({{"Correlation-ID", "own"}, {"tracestate", "own"}}));
  const EventContextScope inner({.traceparent = "inner"});
  EXPECT_EQ("correlation-id=c-1;traceparent=inner;", headers({}));
}

TEST(EventContext, IsText) {
  EXPECT_THROW(EventContextScope({.actor = "\xff"}), Error);
  EXPECT_EQ("", EventContextScope::current().actor);
}

}  // namespace
}  // namespace waybill
