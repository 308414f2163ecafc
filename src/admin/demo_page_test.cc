#include "admin/demo_page.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "support/raw_http_client.h"

namespace waybill {
namespace {

class DemoPageTest : public testing::Test {
 protected:
  DemoPageTest() {
    add_demo_page(server_, [] { return std::string(R"({"destinations":[]})"); });
    server_.start();
  }
  http::Reply get(std::string_view path) { return http::RawClient(server_.port()).get(path); }

  static void expect_none_of(std::string_view text, std::initializer_list<std::string_view> unwanted) {
    for (const auto word : unwanted) EXPECT_EQ(std::string_view::npos, text.find(word)) << word;
  }

  http::Server server_{{}};
};

TEST_F(DemoPageTest, ServesThePageAndItsFiles) {
  for (const auto& [path, type] :
       {std::pair("/", "text/html; charset=utf-8"), std::pair("/demo.css", "text/css; charset=utf-8"),
        std::pair("/demo.js", "text/javascript; charset=utf-8"), std::pair("/icon.svg", "image/svg+xml")}) {
    const auto reply = get(path);
    EXPECT_EQ(200, reply.status) << path;
    EXPECT_EQ(type, reply.headers.at("content-type"));
    EXPECT_NE("", reply.body);
  }
}

TEST_F(DemoPageTest, ServesStatusAndLife) {
  EXPECT_EQ(R"({"destinations":[]})", get("/status.json").body);
  EXPECT_EQ("application/json", get("/status.json").headers.at("content-type"));
  EXPECT_EQ("ok\n", get("/livez").body);
}

// The policy that every answer has would silently break a page that does.
TEST_F(DemoPageTest, Security9_HasNothingInlineAndNothingFromElsewhere) {
  expect_none_of(get("/").body, {"<style", " style=", " onload=", " onclick=", "<script>", "http:", "https:"});
  expect_none_of(get("/demo.css").body, {"@import", "url("});
  expect_none_of(get("/demo.js").body, {"innerHTML", "eval(", "document.write", "import("});
}

TEST_F(DemoPageTest, Security2_EveryRouteChecksTheHost) {
  for (const auto* path : {"/", "/demo.css", "/demo.js", "/icon.svg", "/livez", "/status.json"}) {
    http::RawClient client(server_.port());
    client.send(fmt::format("GET {} HTTP/1.1\r\nHost: evil.example:{}\r\n\r\n", path, server_.port()));
    EXPECT_EQ(421, client.read_reply().status) << path;
  }
}

}  // namespace
}  // namespace waybill
