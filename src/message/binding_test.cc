#include "message/binding.h"

#include <gtest/gtest.h>

namespace waybill {
namespace {

std::string carried(std::string_view json, const Binding& binding, std::string_view prefix = "ce-") {
  HeaderList headers;
  const std::string refusal = append_own_headers(headers, json, binding, prefix);
  if (!refusal.empty()) return "refused: " + refusal;
  std::string text;
  for (std::size_t i = 0; i < headers.size(); ++i)
    text += std::string(headers[i].name) + '=' + std::string(headers[i].value) + ';';
  return text;
}

TEST(OwnHeaders, AreCarriedAsTheyAre) {
  for (const Binding* binding : {&bindings::amqp, &bindings::nats, &bindings::http}) {
    EXPECT_EQ(carried("", *binding), "");
    EXPECT_EQ(carried(" { } ", *binding), "");
    EXPECT_EQ(carried(R"({"a":"1","X-Tenant" : "no rth","e":""})", *binding), "a=1;X-Tenant=no rth;e=;");
    EXPECT_EQ(carried(R"({"a":"\"\\\/\u0041"})", *binding), "a=\"\\/A;");
  }
  EXPECT_EQ(carried(R"({"näme":"\u00fc\ud83d\ude00 "})", bindings::amqp), "näme=ü😀 ;");
}

TEST(OwnHeaders, ThatAreNoTextsAreRefused) {
  for (const char* json : {"[]", "{", R"({"a":1})", R"({"a":null})", R"({"a":"1",})", R"({"a":"1"}x)", R"({"a")",
                           R"({"a":"\ud800"})", "{\"a\":\"\xff\"}", "7", R"({"a":{"b":"c"}})"})
    EXPECT_EQ(carried(json, bindings::amqp), "refused: its headers are not a JSON object of texts") << json;
}

TEST(OwnHeaders, Security28_NeverEndALine) {
  for (const Binding* binding : {&bindings::amqp, &bindings::nats, &bindings::http}) {
    EXPECT_EQ(carried(R"({"a":"1\r\nb: 2"})", *binding), "refused: header 'a' contains a control character");
    EXPECT_EQ(carried(R"({"a\r\nb":"1"})", *binding), "refused: a header's name contains a control character");
    EXPECT_EQ(carried(R"({"a":"\u0000"})", *binding), "refused: header 'a' contains a control character");
    EXPECT_EQ(carried(R"({"a":"\u0085"})", *binding), "refused: header 'a' contains a control character");
  }
}

TEST(OwnHeaders, OfLinesHaveTokensAsNames) {
  for (const Binding* binding : {&bindings::nats, &bindings::http}) {
    EXPECT_NE(carried(R"({"a b":"x"})", *binding).find("refused: header 'a b': a name in"), std::string::npos);
    EXPECT_NE(carried(R"({"a:b":"x"})", *binding).find("refused"), std::string::npos);
  }
}

TEST(OwnHeaders, DoNotStandInForOthers) {
  EXPECT_EQ(carried(R"({"Nats-Rollup":"all"})", bindings::nats),
            "refused: header 'Nats-Rollup' has a meaning of its own in NATS or in the envelope; rename it");
  EXPECT_NE(carried(R"({"Waybill-Encoded":"x"})", bindings::nats).find("refused"), std::string::npos);
  EXPECT_NE(carried(R"({"CE-id":"x"})", bindings::nats).find("refused"), std::string::npos);
  EXPECT_NE(carried(R"({"Content-Length":"0"})", bindings::http).find("refused"), std::string::npos);
  EXPECT_NE(carried(R"({"CC":"x"})", bindings::amqp).find("refused"), std::string::npos);
  EXPECT_EQ(carried(R"({"cc":"x"})", bindings::amqp), "cc=x;");
  EXPECT_NE(carried(R"({"cloudEvents:id":"x"})", bindings::amqp, "cloudEvents:").find("refused"), std::string::npos);
  EXPECT_EQ(carried(R"({"ce-id":"x"})", bindings::nats, "waybill-"), "ce-id=x;");
  EXPECT_EQ(carried(R"({"a":"1","a":"2"})", bindings::amqp), "refused: header 'a' is there twice");
  EXPECT_EQ(carried(R"({"a":"1","A":"2"})", bindings::amqp), "a=1;A=2;");
  EXPECT_EQ(carried(R"({"a":"1","A":"2"})", bindings::http), "refused: header 'A' is there twice");
}

TEST(Headers, ThatAreNoLinesAreEncodedAndListed) {
  HeaderList headers;
  headers.add("a", "plain %41");
  headers.add("b", "ü");
  headers.add("C", " ");
  encode_lines(headers, bindings::nats);
  std::vector<Header> read;
  for (std::size_t i = 0; i < headers.size(); ++i)
    read.push_back({std::string(headers[i].name), std::string(headers[i].value)});
  ASSERT_EQ(read.size(), 4U);
  EXPECT_EQ(read[1].value, "%C3%BC");
  EXPECT_EQ(read[3].name, "waybill-encoded");
  EXPECT_EQ(read[3].value, "b, C");
  decode_lines(read);
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[0].value, "plain %41");
  EXPECT_EQ(read[1].value, "ü");
  EXPECT_EQ(read[2].value, " ");
}

TEST(Headers, ThatAStrangerListsMayBeAnything) {
  std::vector<Header> read{{"Waybill-Encoded", ",, a,missing , a"}, {"a", "%zz"}, {"waybill-encoded", "a"}};
  decode_lines(read);
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].value, "%zz");
}

TEST(Headers, HaveALimit) {
  HeaderList headers;
  headers.add("a", std::string(bindings::nats.headers_bytes_max - 5, 'x'));
  EXPECT_EQ(size_problem(headers, bindings::nats), "");
  headers.add("b", "");
  EXPECT_EQ(size_problem(headers, bindings::nats), "its headers take 64517 bytes; at most 64512 are allowed in NATS");
}

}  // namespace
}  // namespace waybill
