#include "model/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/error.h"

namespace waybill {
namespace {

using testing::HasSubstr;

Event good() {
  Event event;
  event.topic = "order.paid";
  event.payload = R"({"id":"o-7"})";
  return event;
}

std::string refusal(const Event& event) {
  try {
    validate(event);
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_input, error.remedy());
    return error.what();
  }
  return "accepted";
}

TEST(Validate, TakesTopicAndPayloadAlone) {
  EXPECT_EQ("accepted", refusal(good()));
}

TEST(Validate, NamesTheFieldAndTheWayOut) {
  Event event = good();
  event.topic = "";
  EXPECT_THAT(refusal(event), HasSubstr("topic is missing"));

  event = good();
  event.topic = std::string(256, 't');
  EXPECT_THAT(refusal(event), HasSubstr("topic has 256 bytes; at most 255"));

  event = good();
  event.topic = "a\nb";
  EXPECT_THAT(refusal(event), HasSubstr("topic contains a control character"));

  event = good();
  event.aggregate.type = "order";
  EXPECT_THAT(refusal(event), HasSubstr("aggregate needs both"));

  event = good();
  event.key = "\xff";
  EXPECT_THAT(refusal(event), HasSubstr("'order.paid': key is not UTF-8"));

  event = good();
  event.payload = "{broken";
  EXPECT_THAT(refusal(event), HasSubstr("payload is not JSON; for other content use payload_bytes"));

  event = good();
  event.payload_bytes = "x";
  EXPECT_THAT(refusal(event), HasSubstr("payload must be given once"));

  event = good();
  event.payload.reset();
  EXPECT_THAT(refusal(event), HasSubstr("payload must be given once"));

  event = good();
  event.payload = '"' + std::string(limits::payload_bytes_max - 1, 'x') + '"';
  EXPECT_THAT(refusal(event), HasSubstr("at most 786432 are allowed: store it elsewhere"));

  event = good();
  event.metadata = "[1]";
  EXPECT_THAT(refusal(event), HasSubstr("metadata is not a JSON object"));

  event = good();
  event.headers = {{"a", "1"}, {"a", "2"}};
  EXPECT_THAT(refusal(event), HasSubstr("headers name 'a' twice"));

  event = good();
  event.headers = {{"a", "1\r\nBcc: x"}};
  EXPECT_THAT(refusal(event), HasSubstr("headers contains a control character"));

  event = good();
  event.attempts_max = 0;
  EXPECT_THAT(refusal(event), HasSubstr("attempts_max must be between 1 and 1000"));
  event.attempts_max = 1'001;
  EXPECT_THAT(refusal(event), HasSubstr("attempts_max must be between 1 and 1000"));
  event.attempts_max = 1'000;
  EXPECT_EQ("accepted", refusal(event));
}

TEST(Validate, Security32_NeverPrintsThePayload) {
  Event event = good();
  event.payload = "{secret-canary";
  EXPECT_THAT(refusal(event), testing::Not(HasSubstr("canary")));
}

TEST(HeadersJson, IsAFlatObject) {
  EXPECT_EQ("", headers_json({}));
  EXPECT_EQ(R"({"a":"1","b":"\"2\""})", headers_json({{"a", "1"}, {"b", "\"2\""}}));
}

}  // namespace
}  // namespace waybill
