#include "http/router.h"

#include <gtest/gtest.h>

namespace waybill::http {
namespace {

Handler nothing() {
  return [](const Request&) { return Response{}; };
}

TEST(Router, FindsByMethodAndPath) {
  Router router;
  router.add("GET", "/", nothing());
  router.add("GET", "/events", nothing());
  router.add("POST", "/events", nothing());
  EXPECT_NE(nullptr, router.find("GET", "/").handler);
  EXPECT_NE(router.find("GET", "/events").handler, router.find("POST", "/events").handler);
  EXPECT_EQ(router.find("HEAD", "/events").handler, router.find("GET", "/events").handler);
  EXPECT_EQ(nullptr, router.find("DELETE", "/events").handler);
  EXPECT_EQ("GET, HEAD, POST", router.find("DELETE", "/events").allow);
  EXPECT_EQ("", router.find("GET", "/event").allow);
  EXPECT_EQ("", router.find("GET", "/events/").allow);
}

TEST(Router, AStarIsOneSegment) {
  Router router;
  router.add("GET", "/stream/*", nothing());
  EXPECT_EQ("board", router.find("GET", "/stream/board").tail);
  EXPECT_EQ(nullptr, router.find("GET", "/stream/").handler);
  EXPECT_EQ(nullptr, router.find("GET", "/stream/a/b").handler);
  EXPECT_EQ(nullptr, router.find("GET", "/streams/a").handler);
}

TEST(OwnNames, AreTheLoopbackOnesWithThePort) {
  const auto names = own_names("127.0.0.1", 8080);
  for (const auto* host : {"localhost:8080", "LocalHost:8080", "127.0.0.1:8080", "[::1]:8080"})
    EXPECT_TRUE(is_own_name(host, names)) << host;
  for (const auto* host :
       {"", "localhost", "127.0.0.1", "localhost:80", "localhost:8081", "evil.example:8080",
        "localhost:8080, localhost:8080", "localhost:8080.evil", "localhost.:8080", "127.0.0.2:8080", "::1:8080"})
    EXPECT_FALSE(is_own_name(host, names)) << host;
}

TEST(OwnNames, NeedNoPortIfItIsTheDefault) {
  EXPECT_TRUE(is_own_name("localhost", own_names("::1", 80)));
  EXPECT_TRUE(is_own_name("127.0.0.5", own_names("127.0.0.5", 80)));
}

TEST(CrossSite, Security5_IsARequestOfAnotherOriginsPage) {
  const auto names = own_names("127.0.0.1", 8780);
  const auto asks = [&](Fields headers) { return is_cross_site(headers, names); };
  EXPECT_FALSE(asks({}));  // No browser.
  EXPECT_FALSE(asks({{"origin", "http://localhost:8780"}}));
  EXPECT_TRUE(asks({{"origin", "http://localhost:3000"}}));
  EXPECT_TRUE(asks({{"origin", "https://localhost:8780"}}));
  EXPECT_TRUE(asks({{"origin", "https://evil.example"}}));
  EXPECT_TRUE(asks({{"origin", "null"}}));
  EXPECT_FALSE(asks({{"sec-fetch-site", "none"}}));
  EXPECT_FALSE(asks({{"sec-fetch-site", "same-origin"}}));
  EXPECT_TRUE(asks({{"sec-fetch-site", "same-site"}}));
  EXPECT_TRUE(asks({{"sec-fetch-site", "cross-site"}, {"sec-fetch-mode", "no-cors"}}));
  EXPECT_TRUE(asks({{"sec-fetch-site", "cross-site"}, {"sec-fetch-mode", "navigate"}, {"sec-fetch-dest", "iframe"}}));
  EXPECT_FALSE(
      asks({{"sec-fetch-site", "cross-site"}, {"sec-fetch-mode", "navigate"}, {"sec-fetch-dest", "document"}}));
}

}  // namespace
}  // namespace waybill::http
