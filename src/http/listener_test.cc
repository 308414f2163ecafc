#include "http/listener.h"

#include <gtest/gtest.h>

#include "waybill/error.h"

namespace waybill::http {
namespace {

TEST(Listener, FindsAFreePort) {
  const Listener listener("localhost", 0);
  EXPECT_NE(0, listener.port());
  EXPECT_EQ("127.0.0.1", listener.address());
}

TEST(Listener, Security1_RefusesWhatOthersCanReach) {
  for (const auto* address : {"0.0.0.0", "::", "192.168.1.1", "10.0.0.1", "128.0.0.1", "::ffff:127.0.0.1", "fe80::1",
                              "example.org", "", "127.1", "2130706433"}) {
    try {
      const Listener listener(address, 0);
      ADD_FAILURE() << address;
    } catch (const Error& e) {
      EXPECT_EQ(Remedy::fix_config, e.remedy());
      EXPECT_NE(std::string::npos, std::string(e.what()).find("use 127.0.0.1")) << e.what();
    }
  }
}

TEST(Listener, SaysThatAPortIsTaken) {
  const Listener first("127.0.0.1", 0);
  try {
    const Listener second("127.0.0.1", first.port());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(Remedy::fix_config, e.remedy());
    EXPECT_NE(std::string::npos, std::string(e.what()).find("choose another port")) << e.what();
  }
}

}  // namespace
}  // namespace waybill::http
