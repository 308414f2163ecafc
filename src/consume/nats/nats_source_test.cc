#include "waybill/nats_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/error.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

NatsSourceOptions good() {
  return {.servers = {"nats://a", "tls://b:1"}, .stream = "ORDERS", .durable = "stock"};
}

std::string refusal(const NatsSourceOptions& options) {
  try {
    nats_source(options, {});
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_config, error.remedy());
    EXPECT_THAT(error.what(), Not(HasSubstr("secret")));
    return error.what();
  }
  return "";
}

TEST(NatsSourceTest, OptionsThatCannotBeAreRefused) {
  EXPECT_EQ("", refusal(good()));
  const auto with = [](auto change) {
    NatsSourceOptions options = good();
    change(options);
    return refusal(options);
  };
  EXPECT_THAT(with([](auto& o) { o.servers.clear(); }), HasSubstr("servers is missing"));
  EXPECT_THAT(with([](auto& o) { o.servers = {"nats://me:secret@a"}; }), HasSubstr("servers must be"));
  EXPECT_THAT(with([](auto& o) { o.stream = ""; }), HasSubstr("stream"));
  EXPECT_THAT(with([](auto& o) { o.durable = "a.b"; }), HasSubstr("durable"));
  EXPECT_THAT(with([](auto& o) { o.subjects = {"a b"}; }), HasSubstr("subjects"));
  EXPECT_THAT(with([](auto& o) { o.prefetch = 0; }), HasSubstr("prefetch"));
  EXPECT_THAT(with([](auto& o) { o.ack_wait = 10ms; }), HasSubstr("ack_wait"));
  EXPECT_THAT(with([](auto& o) { o.max_deliver = 0; }), HasSubstr("max_deliver"));
  EXPECT_THAT(with([](auto& o) { o.user = "me"; }), HasSubstr("go together"));
  EXPECT_THAT(with([](auto& o) {
                o.token = "secret";
                o.credentials_file = "x";
              }),
              HasSubstr("exclude"));
  EXPECT_THAT(with([](auto& o) { o.inbox_prefix = "_INBOX.>"; }), HasSubstr("inbox_prefix"));
}

}  // namespace
}  // namespace waybill
