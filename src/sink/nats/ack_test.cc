#include "sink/nats/ack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace waybill::nats {
namespace {

using Kind = Outcome::Kind;
using testing::HasSubstr;

Refusal refused(int status, int error, const std::string& description, bool others_arrive = true) {
  const Ack ack = read_ack(R"({"error":{"code":)" + std::to_string(status) + R"(,"err_code":)" + std::to_string(error) +
                           R"(,"description":")" + description + R"("},"stream":"ORDERS","seq":0})");
  EXPECT_FALSE(ack.stored);
  return refusal(ack, "orders.paid", others_arrive);
}

TEST(AckTest, IsReadInEveryFormThatServersWrite) {
  EXPECT_TRUE(read_ack(R"({"stream":"ORDERS", "seq":1})").stored);
  EXPECT_TRUE(read_ack(R"({"stream":"ORDERS","seq":18446744073709551615})").stored);
  EXPECT_TRUE(read_ack(R"({"stream":"ORDERS", "domain":"hub", "seq":7})").stored);
  EXPECT_TRUE(read_ack(R"({"seq":7,"stream":"ORDERS","more":{}})").stored);
  EXPECT_FALSE(read_ack(R"({"stream":"ORDERS", "seq":1})").duplicate);
  const Ack again = read_ack(R"({"stream":"ORDERS", "seq":1,"duplicate": true})");
  EXPECT_TRUE(again.stored && again.duplicate);
}

TEST(AckTest, IsNothingElse) {
  for (const char* text :
       {"", "{}", "null", "[]", "+OK", R"({"stream":"", "seq":1})", R"({"stream":"ORDERS"})",
        R"({"stream":"ORDERS", "seq":0})", R"({"stream":"ORDERS", "seq":})", R"({"stream":"ORDERS", "seq":1)",
        R"({"stream":"ORDERS", "seq":"1"})", R"({"stream":7, "seq":1})", R"({"stream":"A", "seq":1}})"}) {
    const Ack ack = read_ack(text);
    EXPECT_FALSE(ack.stored) << text;
    EXPECT_FALSE(ack.readable) << text;
    EXPECT_EQ(Kind::unknown, refusal(ack, "orders.paid", true).kind) << text;
  }
}

TEST(AckTest, AnErrorIsNoAckEvenWithASequence) {
  const Ack ack = read_ack(R"({"error":{"code":400},"stream":"ORDERS","seq":5})");
  EXPECT_FALSE(ack.stored);
  EXPECT_TRUE(ack.readable);
}

TEST(RefusalTest, AFullStreamIsNoEventsFault) {
  const Refusal full = refused(503, 10077, "maximum messages exceeded");
  EXPECT_EQ(Kind::unavailable, full.kind);
  EXPECT_THAT(full.reason, HasSubstr("stream ORDERS, subject orders.paid: maximum messages exceeded (503/10077)"));
  EXPECT_EQ(Kind::unavailable, refused(503, 10077, "maximum bytes exceeded").kind);
  EXPECT_EQ(Kind::unavailable, refused(500, 10047, "insufficient storage resources available").kind);
}

TEST(RefusalTest, WhatCanNeverBeTakenIsRejected) {
  EXPECT_EQ(Kind::rejected, refused(400, 10054, "message size exceeds maximum allowed").kind);
  EXPECT_EQ(Kind::rejected, refused(400, 10097, "header size exceeds maximum allowed of 64k").kind);
}

TEST(RefusalTest, AWrongAddressIsTheEventsOwnOnlyWhereOthersArrive) {
  EXPECT_EQ(Kind::retry, refused(400, 10060, "expected stream does not match", true).kind);
  EXPECT_EQ(Kind::unavailable, refused(400, 10060, "expected stream does not match", false).kind);
  EXPECT_EQ(Kind::retry, refused(503, 10077, "maximum messages per subject exceeded", true).kind);
  EXPECT_EQ(Kind::retry, refusal_by_nobody("orders.paid", true).kind);
  EXPECT_EQ(Kind::unavailable, refusal_by_nobody("orders.paid", false).kind);
}

TEST(RefusalTest, WhatIsNotKnownIsTheServersTroubleOrWorthAnotherTry) {
  EXPECT_EQ(Kind::unavailable, refused(503, 10008, "JetStream system temporarily unavailable").kind);
  EXPECT_EQ(Kind::unavailable, refused(0, 0, "?").kind);
  EXPECT_EQ(Kind::retry, refused(409, 10158, "duplicate message id is in process").kind);
}

}  // namespace
}  // namespace waybill::nats
