// The sink for RabbitMQ when the network, the broker's queues or its memory fail it.
#include "brokers/rabbitmq_fixture.h"

namespace waybill {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class RabbitmqFaultsTest : public RabbitmqTest {
 protected:
  static std::chrono::milliseconds since(Steady start) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  }

  TcpProxy proxy_{server().port()};
};

// A heartbeat of a second: two without a sign, and some for a busy machine.
constexpr auto heartbeat = 1s;
constexpr auto busy = 5s;

TEST_F(RabbitmqFaultsTest, Row40_ABlackHoleIsNoticedByTheMissingHeartbeat) {
  RabbitmqOptions through_proxy = options(proxy_.port());
  through_proxy.heartbeat = heartbeat;
  const auto sink = rabbitmq_sink(through_proxy, {});
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
  proxy_.black_hole();
  const Steady start = std::chrono::steady_clock::now();
  const Outcome outcome = deliver(*sink, event("2"));
  EXPECT_EQ(Kind::unknown, outcome.kind) << "it was written, so it may have arrived";
  EXPECT_THAT(outcome.reason, HasSubstr("nothing was heard of it for 2000 ms"));
  EXPECT_LT(since(start), 2 * heartbeat + busy);
  proxy_.reset();
  proxy_.pass();
  EXPECT_EQ(Kind::delivered, probe_until_good(*sink).kind);
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("3")).kind);
}

// Nothing may be under way, and nobody wants anything of it: a connection that is well stays.
TEST_F(RabbitmqFaultsTest, AnIdleConnectionIsKeptAliveByHeartbeats) {
  RabbitmqOptions through_proxy = options(proxy_.port());
  through_proxy.heartbeat = heartbeat;
  const auto sink = rabbitmq_sink(through_proxy, {});
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
  std::this_thread::sleep_for(4 * heartbeat);
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("2")).kind);
  EXPECT_EQ(1U, proxy_.accepted());
}

TEST_F(RabbitmqFaultsTest, Row41_AMessageWhoseConfirmationIsLostIsUnknownAndGoesAgainUnderItsId) {
  const auto sink = rabbitmq_sink(options(proxy_.port()), {});
  EXPECT_EQ(Kind::delivered, probe(*sink).kind);
  const EventView& sent = event("1");
  proxy_.cut_after(0, Direction::to_client);
  const Outcome outcome = deliver(*sink, sent);
  EXPECT_EQ(Kind::unknown, outcome.kind);
  EXPECT_THAT(outcome.reason, HasSubstr("sent, but not confirmed"));
  proxy_.pass();
  EXPECT_EQ(Kind::delivered, deliver(*sink, sent).kind);
  const auto messages = client_.drain(queue_);
  ASSERT_EQ(2U, messages.size()) << "it had arrived the first time";
  EXPECT_EQ(messages[0].id, messages[1].id);
}

// What was cut off before its last byte certainly did not arrive.
TEST_F(RabbitmqFaultsTest, Row5_41_HalfAMessageIsNone) {
  const auto sink = rabbitmq_sink(options(proxy_.port()), {});
  EXPECT_EQ(Kind::delivered, probe(*sink).kind);
  // Larger than all buffers on the way, and nobody reads: the last byte cannot be written.
  const std::string large = '"' + std::string(700'000, 'x') + '"';
  proxy_.black_hole();
  for (std::uint64_t i = 0; i < 40; ++i) sink->submit(event(large), i);
  std::vector<Outcome> early;
  sink->collect(early, std::chrono::steady_clock::now() + 500ms);
  EXPECT_TRUE(early.empty());
  proxy_.reset();
  const auto outcomes = collect(*sink, 40);
  EXPECT_EQ(Kind::unknown, outcomes.at(0).kind);
  EXPECT_EQ(Kind::unavailable, outcomes.at(39).kind);
  // Up to a place all may have arrived, and from there on none.
  const auto first = std::find_if(outcomes.begin(), outcomes.end(),
                                  [](const auto& each) { return each.second.kind == Kind::unavailable; });
  EXPECT_TRUE(
      std::all_of(first, outcomes.end(), [](const auto& each) { return each.second.kind == Kind::unavailable; }));
  EXPECT_TRUE(std::all_of(outcomes.begin(), first, [](const auto& each) { return each.second.kind == Kind::unknown; }));
}

// A queue that stands still confirms nothing; the connection is well all the time.
TEST_F(RabbitmqFaultsTest, Row42_WhatIsNotConfirmedInTimeGoesAgainUnderItsId) {
  use_classic_queue();
  const std::string process = "{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, <<\"" + queue_ +
                              "\">>)), P = amqqueue:get_pid(Q), ";
  RabbitmqOptions impatient = options();
  impatient.confirm_timeout = 1s;
  const auto sink = rabbitmq_sink(impatient, {});
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
  server().control({"eval", process + "sys:suspend(P)."});
  const EventView& sent = event("2");
  const Outcome outcome = deliver(*sink, sent);
  EXPECT_EQ(Kind::unknown, outcome.kind);
  EXPECT_THAT(outcome.reason, AllOf(HasSubstr("no confirmation within 1000 ms"), HasSubstr("sent again under its id")));
  server().control({"eval", process + "sys:resume(P)."});
  EXPECT_EQ(Kind::delivered, deliver(*sink, sent).kind);
  const auto messages = client_.drain(queue_);
  ASSERT_EQ(3U, messages.size());
  EXPECT_EQ(sent.id.to_string(), messages[1].id);
  EXPECT_EQ(sent.id.to_string(), messages[2].id);
}

TEST_F(RabbitmqFaultsTest, Row54_WhileTheBrokerHoldsUsOffNothingIsSentAndNothingTimesOut) {
  RabbitmqOptions impatient = options();
  impatient.heartbeat = heartbeat;
  impatient.confirm_timeout = 2s;
  const auto sink = rabbitmq_sink(impatient, {});
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
  server().control({"set_vm_memory_high_watermark", "0.00001"});
  // The broker notices when something is published: that one it may take, or tell us after the alarm.
  const EventView& first = event("2");
  sink->submit(first, 2);
  std::vector<Outcome> outcomes;
  Outcome away;
  for (const Steady end = std::chrono::steady_clock::now() + 30s; std::chrono::steady_clock::now() < end;) {
    sink->collect(outcomes, std::chrono::steady_clock::now() + 10ms);
    away = probe(*sink);
    if (away.kind != Kind::delivered) break;
  }
  EXPECT_EQ(Kind::unavailable, away.kind);
  EXPECT_THAT(away.reason, AllOf(HasSubstr("blocked by the broker"), HasSubstr("memory")));
  const Outcome held_off = deliver(*sink, event("3"));
  EXPECT_EQ(Kind::unavailable, held_off.kind);
  EXPECT_EQ(away.reason, held_off.reason);
  // Longer than the confirmation may take, and than the heartbeat may be missed.
  sink->collect(outcomes, std::chrono::steady_clock::now() + 4s);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(Kind::delivered, outcome.kind) << outcome.reason;
  EXPECT_THAT(probe(*sink).reason, HasSubstr("blocked by the broker"));
  server().control({"set_vm_memory_high_watermark", "0.4"});
  EXPECT_EQ(Kind::delivered, probe_until_good(*sink).kind);
  while (outcomes.empty()) sink->collect(outcomes, std::chrono::steady_clock::now() + 1s);
  EXPECT_EQ(1U, outcomes.size());
  EXPECT_EQ(Kind::delivered, outcomes[0].kind) << outcomes[0].reason;
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("4")).kind);
  EXPECT_THAT(bodies(), ElementsAre("1", "2", "4"));
}

TEST_F(RabbitmqFaultsTest, NobodyWaitsForABrokerThatDoesNotAnswer) {
  proxy_.black_hole();
  Steady start = std::chrono::steady_clock::now();
  {
    const auto sink = rabbitmq_sink(options(proxy_.port()), {});
    sink->submit(event("1"), 1);
    EXPECT_LT(since(start), 1s);
    EXPECT_THAT(sink->probe(std::chrono::steady_clock::now() + 50ms).reason, HasSubstr("still connecting"));
    start = std::chrono::steady_clock::now();
    sink->close(start + 2s);
    EXPECT_LT(since(start), 3s);
    sink->submit(event("2"), 2);
    std::vector<Outcome> outcomes;
    sink->collect(outcomes, std::chrono::steady_clock::now() + 50ms);
    EXPECT_TRUE(outcomes.empty());
    start = std::chrono::steady_clock::now();
  }
  EXPECT_LT(since(start), 3s);
}

TEST_F(RabbitmqFaultsTest, WhoDoesNotAnswerInTimeIsAway) {
  proxy_.black_hole();
  RabbitmqOptions impatient = options(proxy_.port());
  impatient.connect_timeout = 300ms;
  const auto sink = rabbitmq_sink(impatient, {});
  const Outcome outcome = deliver(*sink, event("1"));
  EXPECT_EQ(Kind::unavailable, outcome.kind);
  EXPECT_THAT(outcome.reason, HasSubstr("no answer in time"));
}

}  // namespace
}  // namespace waybill
