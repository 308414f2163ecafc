#include "broker/rabbitmq/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/error.h"

namespace waybill::rabbitmq {
namespace {

using testing::HasSubstr;

std::string hosts_of(const BrokerUrl& url) {
  std::string text;
  for (const auto& host : url.hosts) text += host.name + ":" + std::to_string(host.port) + " ";
  return text;
}

std::string refusal(const std::string& url) {
  try {
    parse_url(url);
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_config, error.remedy());
    return error.what();
  }
  return "none";
}

TEST(BrokerUrlTest, NamesOneHostOrSeveral) {
  EXPECT_EQ("rabbit:5672 ", hosts_of(parse_url("amqp://rabbit")));
  EXPECT_EQ("rabbit-1:5671 rabbit-2:7000 ::1:5671 ",
            hosts_of(parse_url("amqps://rabbit-1,rabbit-2:7000,[::1]/clinic")));
  EXPECT_EQ("::1:7 ", hosts_of(parse_url("amqp://[::1]:7/")));
}

TEST(BrokerUrlTest, HasUserPasswordAndVhost) {
  const BrokerUrl url = parse_url("amqps://relay:s%40%2Fcret@rabbit/a%2Fb");
  EXPECT_TRUE(url.tls);
  EXPECT_EQ("relay", url.user);
  EXPECT_EQ("s@/cret", url.password);
  EXPECT_EQ("a/b", url.vhost);
}

TEST(BrokerUrlTest, TheDefaultVhostIsASlash) {
  for (const char* url : {"amqp://h", "amqp://h/", "amqp://h/%2F", "amqp://h/%2f"})
    EXPECT_EQ("/", parse_url(url).vhost);
  EXPECT_EQ("", parse_url("amqp://h").user);
}

TEST(BrokerUrlTest, WhatIsWrongIsSaid) {
  EXPECT_THAT(refusal("http://h"), HasSubstr("must begin with"));
  EXPECT_THAT(refusal(""), HasSubstr("must begin with"));
  EXPECT_THAT(refusal("amqp://"), HasSubstr("names no host"));
  EXPECT_THAT(refusal("amqp://a,,b"), HasSubstr("names no host"));
  EXPECT_THAT(refusal("amqp://h:0"), HasSubstr("port"));
  EXPECT_THAT(refusal("amqp://h:65536"), HasSubstr("port"));
  EXPECT_THAT(refusal("amqp://h:5672x"), HasSubstr("port"));
  EXPECT_THAT(refusal("amqp://[::1"), HasSubstr("without a ']'"));
  EXPECT_THAT(refusal("amqp://[::1]x"), HasSubstr("after ']'"));
  EXPECT_THAT(refusal("amqp://h/a/b"), HasSubstr("%2F"));
  EXPECT_THAT(refusal("amqp://h/%"), HasSubstr("hexadecimal"));
  EXPECT_THAT(refusal("amqp://u:%4@h/"), HasSubstr("hexadecimal"));
  EXPECT_THAT(refusal("amqp://h/%00"), HasSubstr("hexadecimal"));
  EXPECT_THAT(refusal("amqp://h/?heartbeat=5"), HasSubstr("keys of their own"));
}

}  // namespace
}  // namespace waybill::rabbitmq
