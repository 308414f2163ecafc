#include "consume/nats/pull_consumer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "waybill/error.h"

namespace waybill::nats {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

NatsSourceOptions options() {
  return {.servers = {"nats://a"}, .stream = "ORDERS", .durable = "stock"};
}
ConsumerState state() {
  return {.ack_policy = "explicit", .max_ack_pending = 1, .ack_wait = 30s};
}

TEST(PullConsumerTest, IsAskedForAsTheOptionsSay) {
  NatsSourceOptions wanted = options();
  auto config = nlohmann::json::parse(creation_request(wanted)).at("config");
  EXPECT_EQ("stock", config.at("durable_name"));
  EXPECT_EQ("explicit", config.at("ack_policy"));
  EXPECT_EQ(1, config.at("max_ack_pending"));
  EXPECT_EQ(30'000'000'000, config.at("ack_wait"));
  EXPECT_EQ(-1, config.at("max_deliver"));
  EXPECT_FALSE(config.contains("filter_subject"));
  wanted.subjects = {"orders.paid"};
  EXPECT_EQ("orders.paid", nlohmann::json::parse(creation_request(wanted)).at("config").at("filter_subject"));
  wanted.subjects = {"orders.paid", "orders.sent"};
  EXPECT_EQ(2U, nlohmann::json::parse(creation_request(wanted)).at("config").at("filter_subjects").size());
}

TEST(PullConsumerTest, AnAnswerIsRead) {
  const ConsumerAnswer answer = read_consumer_answer(
      R"({"type":"io.nats.jetstream.api.v1.consumer_info_response","stream_name":"ORDERS","config":{"durable_name":"stock",
          "ack_policy":"explicit","ack_wait":30000000000,"max_ack_pending":1,"filter_subject":"orders.>"}})");
  EXPECT_EQ("", answer.error);
  EXPECT_EQ(30s, answer.state.ack_wait);
  EXPECT_EQ(std::vector<std::string>{"orders.>"}, answer.state.subjects);
  const auto refused = [](int code) {
    return read_consumer_answer(R"({"error":{"code":404,"description":"not found","err_code":)" + std::to_string(code) +
                                "}}");
  };
  EXPECT_TRUE(refused(10014).missing);
  EXPECT_TRUE(refused(10059).no_stream);
  EXPECT_THAT(refused(1).error, HasSubstr("not found (404/1)"));
  EXPECT_THROW(read_consumer_answer("-ERR"), Error);
  EXPECT_THROW(read_consumer_answer("{}"), Error);
}

TEST(PullConsumerTest, AnotherThanTheOneWantedIsRefused) {
  EXPECT_EQ("", mismatch(state(), options()));
  const auto with = [](auto change) {
    ConsumerState other = state();
    change(other);
    return mismatch(other, options());
  };
  EXPECT_THAT(with([](auto& s) { s.ack_policy = "none"; }), HasSubstr("ack policy"));
  EXPECT_THAT(with([](auto& s) { s.deliver_subject = "x"; }), HasSubstr("pushes"));
  EXPECT_THAT(with([](auto& s) { s.subjects = {"orders.>"}; }), HasSubstr("it reads orders.>, not all subjects"));
  EXPECT_THAT(with([](auto& s) { s.max_ack_pending = 1000; }), HasSubstr("max_ack_pending"));
  EXPECT_THAT(with([](auto& s) { s.max_deliver = 5; }), HasSubstr("its max_deliver is 5, not -1"));
  NatsSourceOptions several = options();
  several.prefetch = 100;
  EXPECT_EQ("", mismatch({.ack_policy = "explicit", .max_ack_pending = 1000}, several));
}

}  // namespace
}  // namespace waybill::nats
