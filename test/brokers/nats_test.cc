// A real nats-server, and what each answer of its comes to.
#include <set>

#include "brokers/nats_fixture.h"

namespace waybill {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class JetStreamTest : public NatsTest {
 protected:
  void add_stream(const char* subject = "orders.>") { reader_.add(reader_.config("ORDERS", subject)); }
  std::unique_ptr<Sink> sink(NatsOptions options) { return nats_sink(std::move(options), log()); }
  std::unique_ptr<Sink> sink() { return sink(options(server_.port())); }

  std::vector<Finding> findings(const NatsOptions& options, std::chrono::milliseconds gap = 1min) {
    return examine_nats(options, gap, system_clock().steady() + 5s);
  }

  TmpNats server_;
  NatsReader reader_{server_};
};

auto says(const std::string& part) {
  return Field(&Outcome::reason, HasSubstr(part));
}

auto found(Finding::Level level, const std::string& part) {
  return AllOf(Field(&Finding::level, level), Field(&Finding::text, HasSubstr(part)));
}

TEST_F(JetStreamTest, WhatIsDeliveredIsInTheStream) {
  add_stream();
  auto options = this->options(server_.port());
  options.stream.name = "ORDERS";
  const auto sink = this->sink(options);
  const EventView& sent = event(R"({"total":12})");
  EXPECT_THAT(deliver(*sink, sent), Is(Kind::delivered));
  const auto stored = reader_.message("ORDERS", 1);
  EXPECT_EQ("orders.paid", stored.subject);
  EXPECT_EQ(R"({"total":12})", stored.body);
  const auto has = [&](const char* name, const std::string& value) {
    return testing::Contains(testing::Pair(name, value));
  };
  EXPECT_THAT(stored.headers, has("Nats-Msg-Id", sent.id.to_string()));
  EXPECT_THAT(stored.headers, has("ce-id", sent.id.to_string()));
  EXPECT_THAT(stored.headers, has("Nats-Expected-Stream", "ORDERS"));
  EXPECT_THAT(stored.headers, has("ce-datacontenttype", "application/json"));
}

TEST_F(JetStreamTest, ManyAreDeliveredEachOnceAndInTheOrderOfSubmission) {
  add_stream();
  const auto sink = this->sink();
  EXPECT_THAT(deliver_many(*sink, 2'000), Each(Is(Kind::delivered)));
  const auto bodies = reader_.bodies("ORDERS");
  ASSERT_EQ(2'000U, bodies.size());
  for (std::size_t i = 0; i < bodies.size(); ++i) ASSERT_EQ(std::to_string(i), bodies[i]);
}

TEST_F(JetStreamTest, EveryTicketIsAnsweredOnce) {
  add_stream();
  const auto sink = this->sink();
  std::set<std::uint64_t> tickets;
  for (const Outcome& outcome : deliver_many(*sink, 500)) EXPECT_TRUE(tickets.insert(outcome.ticket).second);
  EXPECT_THAT(tickets, SizeIs(500));
  std::vector<Outcome> more;
  sink->collect(more, system_clock().steady() + 50ms);
  EXPECT_THAT(more, IsEmpty());
}

TEST_F(JetStreamTest, AfterAnEndItBeginsAnewAndAnswersNothingOfBefore) {
  add_stream();
  const auto sink = this->sink();
  submit(*sink, event("1"));
  sink->close(system_clock().steady() + 5s);
  const EventView& second = event("2");
  const auto outcomes = deliver(*sink, {&second});
  ASSERT_THAT(outcomes, ElementsAre(Is(Kind::delivered)));
  EXPECT_EQ(2U, outcomes[0].ticket);
}

TEST_F(JetStreamTest, AnEndUnderLoadIsShort) {
  add_stream();
  const auto sink = this->sink();
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  for (int i = 0; i < 1'000; ++i) submit(*sink, event(std::string(10'000, 'x')));
  std::vector<Outcome> some;
  sink->collect(some, {});
  const Steady begin = system_clock().steady();
  sink->close(begin + 5s);
  EXPECT_LT(system_clock().steady() - begin, 3s);
}

TEST_F(JetStreamTest, AStreamIsMadeAsItIsWanted) {
  auto options = this->options(server_.port());
  options.stream = {.name = "ORDERS", .create = true, .subjects = {"orders.>"}};
  EXPECT_THAT(findings(options), ElementsAre(found(Finding::Level::note, "made when the relay starts")));
  const auto sink = this->sink(options);
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  EXPECT_EQ(1U, reader_.count("ORDERS"));
  EXPECT_THAT(findings(options), ElementsAre(found(Finding::Level::ok, "file storage")));
}

TEST_F(JetStreamTest, AStreamThatWasDeletedIsMadeAgain) {
  auto options = this->options(server_.port());
  options.stream = {.name = "ORDERS", .create = true, .subjects = {"orders.>"}};
  const auto sink = this->sink(options);
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  reader_.remove("ORDERS");
  const EventView& second = event("2");
  const Steady deadline = system_clock().steady() + 30s;
  while (deliver(*sink, second).kind != Kind::delivered) ASSERT_LT(system_clock().steady(), deadline);
  EXPECT_THAT(reader_.bodies("ORDERS"), ElementsAre("2"));
}

TEST_F(JetStreamTest, AStreamThatCannotBeMadeIsSaid) {
  auto options = this->options(server_.port());
  options.stream = {.name = "ORDERS", .create = true, .subjects = {"orders.>"}, .replicas = 3};
  const auto sink = this->sink(options);
  const Outcome outcome = deliver(*sink, event("1"));
  EXPECT_THAT(outcome, Is(Kind::unavailable));
  EXPECT_THAT(outcome, says("could not be made"));
}

TEST_F(JetStreamTest, WhatIsUnsafeIsAProblem) {
  auto options = this->options(server_.port());
  options.stream.name = "ORDERS";
  options.subject_pattern = "orders.>";
  EXPECT_THAT(findings(options), ElementsAre(found(Finding::Level::problem, "no such stream")));
  auto config = reader_.config("ORDERS", "orders.>");
  config.Storage = js_MemoryStorage;
  config.NoAck = true;
  reader_.add(config);
  EXPECT_THAT(findings(options),
              ElementsAre(found(Finding::Level::problem, "no_ack"), found(Finding::Level::problem, "in memory")));
  options.stream.name = "";
  EXPECT_THAT(findings(options), SizeIs(2)) << "the stream is found by the subject";
  options.subject_pattern = "invoices.>";
  EXPECT_THAT(findings(options), ElementsAre(found(Finding::Level::warning, "no stream is known to take")));
  options.stream.name = "ORDERS";
  EXPECT_THAT(findings(options), testing::Contains(found(Finding::Level::problem, "which no event's subject")));
}

TEST_F(JetStreamTest, WhatCannotBeReachedIsAWarning) {
  auto options = this->options(server_.port());
  server_.stop();
  EXPECT_THAT(findings(options), ElementsAre(found(Finding::Level::warning, "cannot be reached")));
}

// 50
TEST_F(JetStreamTest, Row50_WhatIsLargerThanTheServerTakesIsRejectedBeforeItIsSent) {
  TmpNats small({.extra_config = "max_payload: 4096"});
  NatsReader reader(small);
  reader.add(reader.config("ORDERS", "orders.>"));
  const auto sink = this->sink(options(small.port()));
  const EventView& large = event(std::string(5'000, 'x'));
  const EventView& good = event("1");
  auto outcomes = deliver(*sink, {&large, &good});
  std::sort(outcomes.begin(), outcomes.end(), [](const auto& a, const auto& b) { return a.ticket < b.ticket; });
  EXPECT_THAT(outcomes, ElementsAre(AllOf(Is(Kind::rejected), says("max_payload")), Is(Kind::delivered)));
  EXPECT_THAT(reader.bodies("ORDERS"), ElementsAre("1"));
  EXPECT_THAT(findings(options(small.port())), testing::Contains(found(Finding::Level::warning, "max_payload")));
}

// 50
TEST_F(JetStreamTest, Row50_WhatIsLargerThanTheStreamTakesIsRejected) {
  auto config = reader_.config("ORDERS", "orders.>");
  config.MaxMsgSize = 1'000;
  reader_.add(config);
  const auto sink = this->sink();
  EXPECT_THAT(deliver(*sink, event(std::string(2'000, 'x'))), AllOf(Is(Kind::rejected), says("max_msg_size")));
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
}

// 56: nobody listens, or somebody who is no stream: neither is a delivery.
TEST_F(JetStreamTest, Row56_NoStreamIsNoSuccess) {
  auto options = this->options(server_.port());
  options.ack_timeout = 300ms;
  const auto sink = this->sink(options);
  EXPECT_THAT(deliver(*sink, event("1")), AllOf(Is(Kind::unavailable), says("no stream takes subject orders.paid")));
  reader_.listen("orders.>");
  EXPECT_THAT(deliver(*sink, event("2")), AllOf(Is(Kind::unknown), says("no ack within 300 ms")));
}

// 56
TEST_F(JetStreamTest, Row56_AStreamThatIsDeletedTakesNothingAndIsUsedAgainWhenItIsBack) {
  add_stream();
  const auto sink = this->sink();
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  reader_.remove("ORDERS");
  EXPECT_THAT(deliver(*sink, event("2")).kind, testing::AnyOf(Kind::retry, Kind::unavailable));
  add_stream();
  EXPECT_THAT(deliver(*sink, event("3")), Is(Kind::delivered));
  EXPECT_THAT(reader_.bodies("ORDERS"), ElementsAre("3"));
}

// 56: of many events one has an address of its own that no stream takes: its affair, and nobody else's.
TEST_F(JetStreamTest, Row56_OneWrongAddressHoldsNobodyUp) {
  add_stream();
  const auto sink = this->sink();
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  EXPECT_THAT(deliver(*sink, event("2", "elsewhere")), AllOf(Is(Kind::retry), says("elsewhere")));
  EXPECT_THAT(deliver(*sink, event("3")), Is(Kind::delivered));
}

// 56: a stream that the sink has made is not taken to be gone for that, even if nothing else has arrived yet.
TEST_F(JetStreamTest, Row56_AWrongAddressEndsNoSession) {
  auto options = this->options(server_.port());
  options.stream = {.name = "ORDERS", .create = true, .subjects = {"orders.>"}};
  const auto sink = this->sink(options);
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(deliver(*sink, event(std::to_string(i), "elsewhere")), AllOf(Is(Kind::retry), says("elsewhere")));
  EXPECT_THAT(deliver(*sink, event("3")), Is(Kind::delivered));
}

TEST_F(JetStreamTest, AnotherStreamThanExpectedTakesNothing) {
  add_stream();
  auto options = this->options(server_.port());
  options.stream.name = "INVOICES";
  const auto sink = this->sink(options);
  EXPECT_THAT(deliver(*sink, event("1")), AllOf(Is(Kind::unavailable), says("expected stream does not match")));
  EXPECT_EQ(0U, reader_.count("ORDERS"));
}

// 57: too late for the stream to know it again. Consumers do, by its id.
TEST_F(JetStreamTest, Row57_ARepetitionAfterTheWindowIsStoredTwiceUnderOneId) {
  auto config = reader_.config("ORDERS", "orders.>");
  config.Duplicates = 100'000'000;  // ns
  reader_.add(config);
  EXPECT_THAT(findings(options(server_.port())), testing::Contains(found(Finding::Level::warning, "duplicate_window")));
  const auto sink = this->sink();
  const EventView& twice = event("1");
  EXPECT_THAT(deliver(*sink, twice), Is(Kind::delivered));
  const Steady deadline = system_clock().steady() + 30s;
  while (reader_.count("ORDERS") < 2) {
    ASSERT_LT(system_clock().steady(), deadline);
    EXPECT_THAT(deliver(*sink, twice), Is(Kind::delivered));
  }
  EXPECT_EQ(reader_.message("ORDERS", 1).headers.at("ce-id"), reader_.message("ORDERS", 2).headers.at("ce-id"));
}

// 58: a repetition is a delivery; what a person sends again is none.
TEST_F(JetStreamTest, Row58_ARepetitionCountsAsDeliveredAndARedriveIsStored) {
  add_stream();
  const auto sink = this->sink();
  EventView again = event("1");
  EXPECT_THAT(deliver(*sink, again), AllOf(Is(Kind::delivered), Field(&Outcome::repeated, false)));
  EXPECT_THAT(deliver(*sink, again), AllOf(Is(Kind::delivered), Field(&Outcome::repeated, true)));
  EXPECT_EQ(1U, reader_.count("ORDERS"));
  EXPECT_THAT(logged(), HasSubstr("repeated=1"));
  again.redrives = 1;
  EXPECT_THAT(deliver(*sink, again), Is(Kind::delivered));
  EXPECT_THAT(deliver(*sink, again), Is(Kind::delivered));
  EXPECT_EQ(2U, reader_.count("ORDERS"));
  EXPECT_EQ(again.id.to_string() + "-r1", reader_.message("ORDERS", 2).headers.at("Nats-Msg-Id"));
}

// 59
TEST_F(JetStreamTest, Row59_AFullStreamIsWaitedFor) {
  auto config = reader_.config("ORDERS", "orders.>");
  config.MaxMsgs = 10;
  config.Discard = js_DiscardNew;
  reader_.add(config);
  const auto sink = this->sink();
  EXPECT_THAT(deliver_many(*sink, 10), Each(Is(Kind::delivered)));
  const EventView& next = event("next");
  EXPECT_THAT(deliver(*sink, next), AllOf(Is(Kind::unavailable), says("maximum messages exceeded")));
  reader_.purge("ORDERS");
  EXPECT_THAT(deliver(*sink, next), Is(Kind::delivered));
  config.MaxMsgs = -1;
  config.MaxBytes = 2'000;
  reader_.update(config);
  EXPECT_THAT(deliver(*sink, event(std::string(1'900, 'x'))), AllOf(Is(Kind::unavailable), says("maximum bytes")));
}

// 60: what the relay calls delivered a killed server still has. (A power cut is another matter: docs/nats.md.)
TEST_F(JetStreamTest, Row60_WhatWasAcknowledgedSurvivesAKilledServer) {
  add_stream();
  const auto sink = this->sink();
  std::set<std::string> acknowledged;
  std::vector<const EventView*> events;
  for (int i = 0; i < 1'000; ++i) events.push_back(&event(std::to_string(i)));
  for (const EventView* each : events) submit(*sink, *each);
  std::vector<Outcome> outcomes;
  while (outcomes.size() < 200) sink->collect(outcomes, system_clock().steady() + 1s);
  server_.kill();
  const auto rest = collect(*sink, events.size() - outcomes.size());
  outcomes.insert(outcomes.end(), rest.begin(), rest.end());
  for (const Outcome& outcome : outcomes)
    if (outcome.kind == Kind::delivered) acknowledged.insert(std::to_string(outcome.ticket - 1));
  server_.start();
  NatsReader reader(server_);
  const auto bodies = reader.bodies("ORDERS");
  const std::set<std::string> stored(bodies.begin(), bodies.end());
  for (const std::string& body : acknowledged) EXPECT_TRUE(stored.contains(body)) << body;
}

}  // namespace
}  // namespace waybill
