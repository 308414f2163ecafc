#include "app/event_line.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/error.h"

#include "base/base64.h"
#include "base/time_text.h"

namespace waybill::app {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view line) {
  try {
    parse_event_line(line);
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_input, error.remedy());
    return error.what();
  }
  return "accepted";
}

TEST(EventLine, ReadsEveryColumn) {
  const Event event = parse_event_line(
      R"( {"id":"018F3C1E-7b1a-7c3d-9e2f-0123456789ab","tenant":"t","topic":"a.b","type":"T","aggregate_type":"order",)"
      R"("aggregate_id":"o/7","version":9007199254740993,"key":"k","payload":{},"content_type":"application/x",)"
      R"("metadata":{"m":1},"headers":{"h":"v\n","\u00e9":"2"},"routing_key":"r","schema_id":"s","schema_version":2,)"
      R"("occurred_at":"2026-02-19T08:30:00Z","not_before":"2026-02-19T08:31:00Z",)"
      R"("expires_at":"2026-02-19T08:32:00Z","attempts_max":3,"dedup_key":"d"} )");
  EXPECT_EQ("018f3c1e-7b1a-7c3d-9e2f-0123456789ab", event.id->to_string());
  EXPECT_EQ("t", event.tenant);
  EXPECT_EQ("a.b", event.topic);
  EXPECT_EQ("T", event.type);
  EXPECT_EQ("order", event.aggregate.type);
  EXPECT_EQ("o/7", event.aggregate.id);
  EXPECT_EQ(9007199254740993, event.version);
  EXPECT_EQ("k", event.key);
  EXPECT_EQ("{}", event.payload);
  EXPECT_EQ(R"({"m":1})", event.metadata);
  ASSERT_EQ(2U, event.headers.size());
  EXPECT_EQ("v\n", event.headers[0].value);
  EXPECT_EQ("\xC3\xA9", event.headers[1].name);
  EXPECT_EQ(2, event.schema_version);
  EXPECT_EQ("2026-02-19T08:32:00.000000Z", to_rfc3339(*event.expires_at));
  EXPECT_EQ(3, event.attempts_max);
  EXPECT_EQ("d", event.dedup_key);
}

TEST(EventLine, KeepsThePayloadByteForByte) {
  for (const auto* payload : {R"({ "b" : 1.0,  "a":1e2 , "a":[ "]}\"\\" , {"x":"{"} ] })", R"("plain \u00e9 text")",
                              "12345678901234567890", "-0.10", "null", "true", "[]", "[ [ ] ]", R"("")"}) {
    EXPECT_EQ(payload, *parse_event_line(fmt::format(R"({{"payload" :  {}  , "topic":"t"}})", payload)).payload);
    EXPECT_EQ(payload, *parse_event_line(fmt::format(R"({{"topic":"t","payload":{}}})", payload)).payload);
  }
}

TEST(EventLine, TakesBytesInBase64) {
  const Event event = parse_event_line(R"({"topic":"t","payload_base64":"AP8K"})");
  EXPECT_EQ(std::string("\x00\xff\n", 3), event.payload_bytes);
  EXPECT_FALSE(event.payload);
}

TEST(EventLine, NullIsNotThere) {
  const Event event = parse_event_line(R"({"topic":"t","tenant":null,"id":null,"payload":null,"headers":null})");
  EXPECT_EQ("default", event.tenant);
  EXPECT_EQ("null", event.payload);
}

TEST(EventLine, NamesWhatIsWrong) {
  EXPECT_THAT(refusal("{broken"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("{\"topic\":\"\xff\"}"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(R"({"topic":"a"}{"topic":"b"})"), HasSubstr("not a JSON object"));
  EXPECT_EQ("'topc' is unknown; did you mean 'topic'?", refusal(R"({"topc":"a"})"));
  EXPECT_EQ("topic is there twice", refusal(R"({"topic":"a","topic":"b"})"));
  EXPECT_EQ("topic must be a text, not a number", refusal(R"({"topic":5})"));
  EXPECT_EQ("headers must be an object, not a list", refusal(R"({"headers":[]})"));
  EXPECT_EQ("headers must have texts as values", refusal(R"({"headers":{"a":1}})"));
  EXPECT_EQ("id must be a UUID", refusal(R"({"id":"7"})"));
  EXPECT_THAT(refusal(R"({"version":1.5})"), HasSubstr("version must be a whole number"));
  EXPECT_THAT(refusal(R"({"version":"1"})"), HasSubstr("version must be a whole number"));
  EXPECT_THAT(refusal(R"({"schema_version":99999999999})"), HasSubstr("schema_version must be a whole number"));
  EXPECT_THAT(refusal(R"({"not_before":"tomorrow"})"), HasSubstr("not_before must be a time"));
  EXPECT_THAT(refusal(R"({"payload_base64":"?"})"), HasSubstr("payload_base64 must be base64"));
  EXPECT_THAT(refusal(R"({"topic":"\ud800"})"), HasSubstr("topic is not a text, or spells half"));
  EXPECT_EQ("accepted", refusal("{}"));
}

TEST(Base64, DecodesStrictly) {
  EXPECT_EQ("", decode_base64(""));
  EXPECT_EQ("f", decode_base64("Zg=="));
  EXPECT_EQ("fo", decode_base64("Zm8="));
  EXPECT_EQ("foo", decode_base64("Zm9v"));
  for (const auto* wrong : {"Z", "Zg", "Zg=", "Zh==", "Z===", "====", "Zm 9", "Zm9v\n", "Zm-_", "=Zm9"})
    EXPECT_FALSE(decode_base64(wrong)) << wrong;
}

}  // namespace
}  // namespace waybill::app
