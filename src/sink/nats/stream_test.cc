#include "sink/nats/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "waybill/error.h"

namespace waybill::nats {
namespace {

using namespace std::chrono_literals;
using Level = Finding::Level;

StreamState good() {
  return {.name = "ORDERS",
          .subjects = {"orders.>"},
          .storage = "file",
          .retention = "limits",
          .discard = "old",
          .duplicate_window = 2min};
}

// The levels of what is found, and what the first says.
std::string found(const StreamState& state, std::chrono::milliseconds gap = 1min) {
  std::string text;
  for (const Finding& finding : examine_stream(state, gap)) {
    text += finding.level == Level::problem ? "problem " : finding.level == Level::warning ? "warning " : "";
    text += finding.level == Level::note ? "note " : finding.level == Level::ok ? "ok " : "";
    EXPECT_EQ(finding.level == Level::ok, finding.remedy.empty());
  }
  return text;
}

TEST(StreamTest, AGoodOneIsGood) {
  EXPECT_EQ("ok ", found(good()));
}

TEST(StreamTest, OneThatLosesEventsIsAProblem) {
  StreamState state = good();
  state.storage = "memory";
  EXPECT_EQ("problem ", found(state));
  state = good();
  state.no_ack = true;
  EXPECT_EQ("problem ", found(state));
  state = good();
  state.sealed = true;
  EXPECT_EQ("problem ", found(state));
  state = good();
  state.mirror = true;
  EXPECT_EQ("problem ", found(state));
}

TEST(StreamTest, OneThatMaySurpriseIsAWarning) {
  StreamState state = good();
  state.retention = "interest";
  EXPECT_EQ("warning ", found(state));
  state.consumers = 1;
  EXPECT_EQ("ok ", found(state));
  state = good();
  state.max_message_size = 1024;
  EXPECT_EQ("warning ", found(state));
  state = good();
  state.max_messages = 10;
  EXPECT_EQ("note ", found(state));
  state.discard = "new";
  EXPECT_EQ("ok ", found(state));
}

// 57
TEST(StreamTest, Row57_AWindowShorterThanTheRetryGapIsAWarning) {
  EXPECT_EQ("ok ", found(good(), 2min));
  EXPECT_EQ("warning ", found(good(), 10min));
}

TEST(StreamTest, AnswersAreRead) {
  const StreamAnswer answer = read_stream_answer(
      R"({"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"ORDERS","subjects":["orders.>"],
          "retention":"workqueue","storage":"memory","discard":"new","num_replicas":3,"no_ack":true,"sealed":true,
          "max_msgs":10,"max_bytes":-1,"max_msg_size":9,"max_age":1000000000,"duplicate_window":120000000000},
          "state":{"messages":1,"consumer_count":2}})");
  EXPECT_EQ("", answer.error);
  EXPECT_EQ("ORDERS", answer.state.name);
  EXPECT_THAT(answer.state.subjects, testing::ElementsAre("orders.>"));
  EXPECT_EQ(3, answer.state.replicas);
  EXPECT_TRUE(answer.state.no_ack && answer.state.sealed && !answer.state.mirror);
  EXPECT_EQ(2min, answer.state.duplicate_window);
  EXPECT_EQ(2, answer.state.consumers);
}

TEST(StreamTest, ErrorsAreRead) {
  const StreamAnswer answer =
      read_stream_answer(R"({"error":{"code":404,"err_code":10059,"description":"stream not found"}})");
  EXPECT_TRUE(answer.missing);
  EXPECT_EQ("stream not found (404/10059)", answer.error);
  EXPECT_THROW(read_stream_answer("-ERR"), Error);
  EXPECT_THROW(read_stream_answer("{}"), Error);
}

TEST(StreamTest, IsAskedForAsItIsWanted) {
  NatsStream stream{.name = "ORDERS", .create = true, .subjects = {"orders.>"}, .replicas = 3, .max_age = 24h};
  const auto request = nlohmann::json::parse(creation_request(stream));
  EXPECT_EQ("ORDERS", request["name"]);
  EXPECT_EQ("file", request["storage"]);
  EXPECT_EQ("new", request["discard"]);
  EXPECT_EQ(3, request["num_replicas"]);
  EXPECT_EQ(-1, request["max_bytes"]);
  EXPECT_EQ(std::chrono::nanoseconds(24h).count(), request["max_age"]);
  EXPECT_EQ(std::chrono::nanoseconds(2min).count(), request["duplicate_window"]);
}

TEST(StreamTest, PatternsOverlapOrDoNot) {
  EXPECT_TRUE(overlap("orders.>", "orders.paid"));
  EXPECT_TRUE(overlap("orders.>", ">"));
  EXPECT_TRUE(overlap("orders.*.x", "orders.a.*"));
  EXPECT_TRUE(overlap("orders.paid", "orders.paid"));
  EXPECT_FALSE(overlap("orders.>", "orders"));
  EXPECT_FALSE(overlap("orders.>", "events.>"));
  EXPECT_FALSE(overlap("orders.*", "orders.a.b"));
  EXPECT_FALSE(overlap("orders.paid", "orders.paid.twice"));
}

}  // namespace
}  // namespace waybill::nats
