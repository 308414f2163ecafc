#include <stdexcept>

#include <gtest/gtest.h>

#include "waybill/sink.h"

namespace waybill {
namespace {

std::vector<Outcome> outcomes_of(Sink& sink, std::size_t count) {
  std::vector<Outcome> outcomes;
  while (outcomes.size() < count) sink.collect(outcomes, Steady{});
  return outcomes;
}

TEST(CallSink, CallsInOrderAndReportsWhatWasSaid) {
  std::string seen;
  const auto sink = sink_from([&](const EventView& event) {
    seen += event.topic;
    return event.topic == "b" ? Outcome::Kind::rejected : Outcome::Kind::delivered;
  });
  const EventView a{.topic = "a"};
  const EventView b{.topic = "b"};
  sink->submit(a, 1);
  sink->submit(b, 2);
  const auto outcomes = outcomes_of(*sink, 2);
  EXPECT_EQ("ab", seen);
  EXPECT_EQ(Outcome::Kind::delivered, outcomes[0].kind);
  EXPECT_EQ("", outcomes[0].reason);
  EXPECT_EQ(2U, outcomes[1].ticket);
  EXPECT_EQ(Outcome::Kind::rejected, outcomes[1].kind);
  EXPECT_NE("", outcomes[1].reason);
}

TEST(CallSink, TheReasonIsTheFunctionsOwn) {
  const auto sink = sink_from([](const EventView& event) -> CallResult {
    if (event.topic == "plain") return Outcome::Kind::retry;
    return {event.topic == "good" ? Outcome::Kind::delivered : Outcome::Kind::rejected, "no postcode"};
  });
  const EventView good{.topic = "good"};
  const EventView bad{.topic = "bad"};
  const EventView plain{.topic = "plain"};
  sink->submit(good, 1);
  sink->submit(bad, 2);
  sink->submit(plain, 3);
  const auto outcomes = outcomes_of(*sink, 3);
  EXPECT_EQ("", outcomes[0].reason);
  EXPECT_EQ("no postcode", outcomes[1].reason);
  EXPECT_EQ("the application's function returned 'retry' without a reason", outcomes[2].reason);
}

TEST(CallSink, AnExceptionIsARetry) {
  const auto sink = sink_from([](const EventView&) -> Outcome::Kind { throw std::runtime_error("no room"); });
  const EventView event;
  sink->submit(event, 7);
  const auto outcomes = outcomes_of(*sink, 1);
  EXPECT_EQ(Outcome::Kind::retry, outcomes[0].kind);
  EXPECT_EQ("no room", outcomes[0].reason);
}

TEST(CallSink, WhatIsNoExceptionIsARetryToo) {
  const auto sink = sink_from([](const EventView&) -> Outcome::Kind { throw 7; });
  const EventView event;
  sink->submit(event, 7);
  const auto outcomes = outcomes_of(*sink, 1);
  EXPECT_EQ(Outcome::Kind::retry, outcomes[0].kind);
  EXPECT_NE("", outcomes[0].reason);
}

}  // namespace
}  // namespace waybill
