#include "http/server.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "waybill/error.h"

#include "support/raw_http_client.h"

namespace waybill::http {
namespace {

using std::chrono_literals::operator""ms;

class ServerTest : public testing::Test {
 protected:
  explicit ServerTest(ServerOptions options = {}) : server_(std::move(options)) {
    server_.route("GET", "/", [](const Request&) { return Response{.content_type = "text/html", .body = "<p>"}; });
    server_.route("GET", "/stream/*", [](const Request& r) { return Response{.body = r.tail}; });
    server_.route("POST", "/echo", [](const Request& r) { return Response{.status = 201, .body = r.body}; });
    server_.route("GET", "/ask", [](const Request& r) {
      return Response{.body = std::string(find(r.query, "q").value_or("none")) + "|" +
                              std::string(find(r.headers, "x-test").value_or("none"))};
    });
    server_.route("GET", "/fails", [](const Request&) -> Answer { throw std::runtime_error("secret"); });
    server_.start();
  }

  RawClient client() { return RawClient(server_.port()); }

  Server server_;
};

class HastyServerTest : public ServerTest {
 protected:
  HastyServerTest() : ServerTest({.request_timeout = 300ms}) {}
};

TEST_F(ServerTest, AnswersAndKeepsTheConnection) {
  auto c = client();
  for (int i = 0; i < 3; ++i) {
    const auto reply = c.get("/");
    EXPECT_EQ(200, reply.status);
    EXPECT_EQ("text/html", reply.headers.at("content-type"));
    EXPECT_EQ("<p>", reply.body);
  }
  EXPECT_EQ("board", c.get("/stream/board").body);
}

TEST_F(ServerTest, GivesTheHandlerQueryAndHeaders) {
  auto c = client();
  EXPECT_EQ("a b&c|one, two", c.get("/ask?q=a%20b%26c&q=other", "X-Test: one\r\nx-test: two\r\n").body);
  EXPECT_EQ("|none", c.get("/ask?q").body);
  EXPECT_EQ("none|none", c.get("/ask").body);
}

TEST_F(ServerTest, HeadHasTheHeadersOfGetAndNoBody) {
  auto c = client();
  c.ask("HEAD", "/");
  const auto reply = c.read_reply(false);
  EXPECT_EQ(200, reply.status);
  EXPECT_EQ("3", reply.headers.at("content-length"));
  EXPECT_EQ(200, c.get("/").status);  // Nothing of a body was in the way.
}

TEST_F(ServerTest, SaysWhatIsNotThere) {
  auto c = client();
  EXPECT_EQ(404, c.get("/other").status);
  c.ask("DELETE", "/echo");
  const auto reply = c.read_reply();
  EXPECT_EQ(405, reply.status);
  EXPECT_EQ("POST", reply.headers.at("allow"));
}

TEST_F(ServerTest, AFailingHandlerTellsNothing) {
  auto c = client();
  const auto reply = c.get("/fails");
  EXPECT_EQ(500, reply.status);
  EXPECT_EQ(std::string::npos, reply.body.find("secret"));
  EXPECT_EQ(200, c.get("/").status);
}

TEST_F(ServerTest, Security2_EveryRouteChecksTheHost) {
  for (const auto* target : {"GET /", "GET /stream/board", "POST /echo", "GET /ask?q=1", "GET /fails", "GET /other",
                             "DELETE /", "HEAD /", "OPTIONS /"}) {
    for (const auto& host : {std::string("evil.example"), std::string("localhost"),
                             fmt::format("evil.example:{}", server_.port()), std::string()}) {
      auto c = client();
      c.send(fmt::format("{} HTTP/1.1\r\n{}\r\n", target, host.empty() ? "" : fmt::format("Host: {}\r\n", host)));
      const auto reply = c.read_reply(std::string_view(target) != "HEAD /");
      // Without any, HTTP/1.1 itself is broken, and the library may say so first.
      EXPECT_TRUE(reply.status == 421 || (host.empty() && reply.status == 400)) << target << ' ' << host;
    }
  }
  auto c = client();
  c.send(fmt::format("GET / HTTP/1.1\r\nHost: localhost:{0}\r\nHost: evil:{0}\r\n\r\n", server_.port()));
  EXPECT_NE(200, c.read_reply().status);
}

TEST_F(ServerTest, Security9_EveryAnswerHasTheSecurityHeaders) {
  for (const auto* target : {"GET /", "POST /echo", "GET /fails", "GET /other", "DELETE /"}) {
    const std::string_view line(target);
    auto c = client();
    c.ask(line.substr(0, line.find(' ')), line.substr(line.find(' ') + 1));
    const auto headers = c.read_reply().headers;
    EXPECT_EQ("nosniff", headers.at("x-content-type-options")) << target;
    EXPECT_EQ("no-store", headers.at("cache-control"));
    EXPECT_EQ("no-referrer", headers.at("referrer-policy"));
    const auto policy = headers.at("content-security-policy");
    EXPECT_TRUE(policy.starts_with("default-src 'none'; script-src 'self'"));
    EXPECT_NE(std::string::npos, policy.find("frame-ancestors 'none'"));
    EXPECT_EQ(std::string::npos, policy.find("unsafe"));
  }
}

TEST_F(ServerTest, TakesBodiesUpToTheLimit) {
  auto c = client();
  const std::string body(limits::body_bytes_max, 'b');
  c.ask("POST", "/echo", fmt::format("Content-Length: {}\r\n", body.size()), body);
  const auto reply = c.read_reply();
  EXPECT_EQ(201, reply.status);
  EXPECT_EQ(body, reply.body);
}

TEST_F(ServerTest, Security10_RefusesLargeBodiesUnread) {
  for (const auto* length : {"1048577", "99999999999", "18446744073709551615"}) {
    auto c = client();
    c.ask("POST", "/echo", fmt::format("Content-Length: {}\r\n", length));
    EXPECT_EQ(413, c.read_reply().status) << length;
  }
  auto c = client();
  c.ask("POST", "/echo", "Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(411, c.read_reply().status);
}

TEST_F(HastyServerTest, Security10_RefusesNonsenseAndLives) {
  for (const auto* bytes :
       {"\r\n\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "\x16\x03\x01\x02\x00\x01\x00",
        "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n"}) {
    auto c = client();
    c.send(bytes);
    try {
      EXPECT_NE(200, c.read_reply().status) << bytes;
    } catch (const std::runtime_error&) {  // Closed without a word.
    }
  }
  EXPECT_EQ(200, client().get("/").status);
}

TEST_F(ServerTest, Security10_RefusesLargeAndManyHeaders) {
  auto large = client();
  EXPECT_EQ(431, large.get("/", fmt::format("X-Large: {}\r\n", std::string(17'000, 'x'))).status);
  std::string many;
  for (int i = 0; i < 101; ++i) many += fmt::format("X-{}: 1\r\n", i);
  auto counting = client();
  EXPECT_EQ(431, counting.get("/", many).status);
  auto huge = client();
  try {
    EXPECT_LE(400, huge.get("/", fmt::format("X-Huge: {}\r\n", std::string(500'000, 'x'))).status);
  } catch (const std::runtime_error&) {  // Closed while it was still sending.
  }
  EXPECT_EQ(200, client().get("/").status);
}

// A byte now and then does not keep a connection: the whole request counts.
TEST_F(HastyServerTest, Security10_CutsTheSlowRequest) {
  auto c = client();
  const auto start = std::chrono::steady_clock::now();
  c.send("GET / HTTP/1.1\r\nX-Slow: ");
  try {
    for (int i = 0; i < 400; ++i) {
      c.send("x");
      std::this_thread::sleep_for(20ms);
    }
    ADD_FAILURE() << "still connected";
  } catch (const std::runtime_error&) {
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 6'000ms);
  EXPECT_TRUE(client().ends());  // Nor does one that says nothing.
}

TEST_F(ServerTest, StopsTwiceAndAtOnce) {
  auto c = client();
  EXPECT_EQ(200, c.get("/").status);
  server_.stop();
  server_.stop();
  EXPECT_TRUE(c.ends());
  EXPECT_THROW(client(), std::runtime_error);
}

TEST(Server, MayNeverBeStarted) {
  Server server({});
  server.stop();
  EXPECT_EQ(fmt::format("http://127.0.0.1:{}/", server.port()), server.url());
}

TEST(Server, ListensOnIpv6Loopback) {
  Server server({.address = "::1"});
  server.start();
  EXPECT_TRUE(server.url().starts_with("http://[::1]:"));
}

// With as many descriptors as are free from now on.
class FewDescriptors {
 public:
  explicit FewDescriptors(int count) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(0);
    ::close(next);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(next + count);
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(ServerDescriptorsTest, Row85_TooFewAreAnErrorThatSaysSo) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need descriptors themselves, and report memory that they could not look at";
#endif
  for (int count = 0; count < 3; ++count) {
    Server server({.port = 0});
    const FewDescriptors few(count);
    try {
      server.start();
      ADD_FAILURE() << count;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("raise the limit of open files")) << count;
    }
  }
  Server server({.port = 0});
  server.start();
}

TEST_F(ServerTest, Security5_PagesOfOtherOriginsAreRefusedOnEveryPath) {
  auto c = client();
  for (const char* path : {"/", "/stream/board", "/nothing"}) {
    EXPECT_EQ(403, c.get(path, "Origin: https://evil.example\r\n").status) << path;
    EXPECT_EQ(403, c.get(path, "Sec-Fetch-Site: cross-site\r\n").status) << path;
  }
  EXPECT_EQ(200, c.get("/", "Sec-Fetch-Site: same-origin\r\n").status);
}

class SmallServerTest : public ServerTest {
 protected:
  SmallServerTest() : ServerTest({.connections_max = 4}) {}
};

TEST_F(SmallServerTest, Security10_ConnectionsThatDoNothingKeepNobodyOut) {
  std::vector<RawClient> idle;
  for (int i = 0; i < 12; ++i) idle.emplace_back(server_.port());
  idle.back().send("GET / HTTP/1.1\r\n");  // And never the rest.
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(200, client().get("/").status);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 3000ms) << "request_timeout is 10 s";
}

}  // namespace
}  // namespace waybill::http
