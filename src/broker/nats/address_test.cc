#include "broker/nats/address.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace waybill {
namespace {

TEST(NatsAddressTest, IsReadInEveryForm) {
  const auto text = [](std::string_view of) {
    const auto address = parse_nats_address(of);
    return address ? address->server.text() + (address->tls ? " tls" : "") : "none";
  };
  EXPECT_EQ("host:4222", text("nats://host"));
  EXPECT_EQ("host:1", text("host:1"));
  EXPECT_EQ("host:4222 tls", text("tls://host:4222/"));
  EXPECT_EQ("[::1]:99", text("nats://[::1]:99"));
  for (const char* wrong :
       {"", "nats://", "host:", "host:0", "host:65536", "host:x", "u:p@host", "ws://host", "[::1", "a b", "a,b"})
    EXPECT_EQ("none", text(wrong)) << wrong;
}

}  // namespace
}  // namespace waybill
