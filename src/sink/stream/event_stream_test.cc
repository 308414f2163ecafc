#include "sink/stream/event_stream.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "sink/stream/fake_log.h"
#include "support/raw_http_client.h"

namespace waybill {
namespace {

using http::RawClient;
using std::chrono_literals::operator""ms;
using stream::FakeLog;

// Its own server and stream, over real sockets.
class EventStreamTest : public testing::Test {
 protected:
  void serve(StreamOptions options) {
    options.name = "board";
    stream_ = std::make_unique<EventStream>(std::move(options), [this] { return log_.follow(); });
    stream_->add_to(server_);
    server_.start();
  }

  RawClient open(std::string_view query, std::string_view headers = "") {
    RawClient client(server_.port());
    const auto reply = client.get(fmt::format("/stream/board{}", query), headers);
    EXPECT_EQ(200, reply.status) << query;
    EXPECT_EQ("text/event-stream", reply.headers.at("content-type"));
    EXPECT_EQ("retry: 1000\n\n", client.read_until("\n\n"));
    return client;
  }
  int refused(std::string_view query, std::string_view headers = "") {
    return RawClient(server_.port()).get(fmt::format("/stream/board{}", query), headers).status;
  }

  // The number of the next event.
  static int next(RawClient& client) {
    while (true) {
      const auto message = client.read_until("\n\n");
      const auto at = message.find("\"seq\":");
      if (at != std::string::npos) return std::stoi(message.substr(at + 6));
    }
  }
  // The next new event must be `first`, then the one after it, up to `last`; what came before may come again.
  static void expect(RawClient& client, int first, int last) {
    for (int i = first; i <= last; ++i) {
      int number = next(client);
      while (number < i && number >= first) number = next(client);
      ASSERT_EQ(i, number);
    }
  }

  FakeLog log_;
  http::Server server_{{}};
  std::unique_ptr<EventStream> stream_;
};

TEST_F(EventStreamTest, BringsTheLogAsMessages) {
  log_.append_many(1);
  serve({});
  auto client = open("?from=beginning");
  const auto message = client.read_until("\n\n");
  EXPECT_TRUE(message.starts_with("id: p1\ndata: {\"id\":\"")) << message;
  EXPECT_NE(std::string::npos, message.find(R"("topic":"room.opened")"));
}

TEST_F(EventStreamTest, BeginsNowUnlessTold) {
  log_.append_many(3);
  serve({});
  auto client = open("");
  EXPECT_EQ(":\nid: p3\n\n", client.read_until("\n\n"));  // Where it is, should it be cut off now.
  log_.append_many(2);
  expect(client, 3, 4);
}

TEST_F(EventStreamTest, ResumesAtEveryPlace) {
  constexpr int count = 40;
  log_.append_many(count);
  serve({.ring = {.events_max = 10}});
  auto live = open("");
  log_.append_many(20);  // Of which ten are in the ring.
  expect(live, count, count + 19);
  for (int i = 0; i <= count + 20; ++i) {
    auto by_query = open(fmt::format("?after=p{}", i));
    auto by_header = open("?after=p0&from=beginning", fmt::format("Last-Event-ID: p{}\r\n", i));
    if (i == count + 20) log_.append_many(1);  // At the end there is something only then.
    expect(by_query, i, std::max(i, count + 19));
    expect(by_header, i, std::max(i, count + 19));
  }
}

TEST_F(EventStreamTest, RefusesPlacesThatAreNone) {
  log_.append_many(5);
  log_.forget_before(2);
  serve({});
  EXPECT_EQ(400, refused("?after=now"));
  EXPECT_EQ(400, refused("?after=a%20b"));
  EXPECT_EQ(400, refused("?after=%0d%0aSet-Cookie:x"));
  EXPECT_EQ(400, refused(fmt::format("?after={}", std::string(13'000, 'p'))));
  EXPECT_EQ(410, refused("", fmt::format("Last-Event-ID: {}\r\n", std::string(12'000, 'p'))));
  EXPECT_EQ(400, refused("?from=yesterday"));
  EXPECT_EQ(410, refused("?after=p1"));
  EXPECT_EQ(410, refused("", "Last-Event-ID: nonsense\r\n"));
  EXPECT_EQ(410, refused("?after=p99"));
  auto client = open("?after=p2");
  expect(client, 2, 4);
}

TEST_F(EventStreamTest, ServesWhatMatchesAndSaysHowFarItIs) {
  serve({.match = {.topic = {"patient.*"}}, .heartbeat = 30ms});
  auto client = open("");
  log_.append("room.opened");
  log_.append("patient.called");
  log_.append("room.closed");
  EXPECT_EQ(1, next(client));
  EXPECT_NE(std::string::npos, client.read_until("id: p3\n\n").find(":\n"));
  EXPECT_EQ(":\n\n", client.read_until("\n\n"));
}

TEST_F(EventStreamTest, ASlowClientLosesNothing) {
  serve({.ring = {.events_max = 8}});
  RawClient slow(server_.port(), 4096);
  ASSERT_EQ(200, slow.get("/stream/board").status);
  auto quick = open("");
  for (int i = 0; i < 20'000; i += 100) {
    log_.append_many(100);
    if (i % 1000 == 0) stream_->hint();
  }
  expect(quick, 0, 19'999);
  expect(slow, 0, 19'999);
}

TEST_F(EventStreamTest, ManyClientsUnderConcurrentAppends) {
  constexpr int total = 3'000;
  serve({.ring = {.events_max = 64}});
  std::jthread writer([this] {
    for (int i = 0; i < total; ++i) {
      log_.append("room.opened");
      if (i % 50 == 0) std::this_thread::sleep_for(1ms);
    }
  });
  std::vector<RawClient> clients;
  for (int i = 0; i < 60; ++i) clients.push_back(open("?from=beginning"));
  EXPECT_EQ(60U, stream_->clients());
  for (auto& client : clients) expect(client, 0, total - 1);
  EXPECT_GE(2, log_.followers());
}

TEST_F(EventStreamTest, ReconnectingOverAndOverLosesNothing) {
  constexpr int total = 2'000;
  serve({.ring = {.events_max = 32}});
  std::jthread writer([this] {
    for (int i = 0; i < total; ++i) {
      log_.append("room.opened");
      if (i % 20 == 0) std::this_thread::sleep_for(1ms);
    }
  });
  int seen = -1;
  while (seen < total - 1) {
    auto client = open(seen < 0 ? "?from=beginning" : fmt::format("?after=p{}", seen + 1));
    for (int i = 0; i < 37 && seen < total - 1; ++i) {
      ASSERT_EQ(seen + 1, next(client));
      ++seen;
    }
  }
}

TEST_F(EventStreamTest, AHintBringsNewsAtOnce) {
  serve({});
  auto client = open("");
  log_.append_many(1);
  EXPECT_EQ(0, next(client));
  std::this_thread::sleep_for(700ms);  // Long enough for the slowest pace.
  const auto start = std::chrono::steady_clock::now();
  log_.append_many(1);
  stream_->hint();
  EXPECT_EQ(1, next(client));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 200ms);
}

TEST_F(EventStreamTest, ReadsNothingWithoutClients) {
  serve({});
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(0, log_.reads());
  { auto client = open(""); }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (log_.followers() > 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(0U, stream_->clients());
  EXPECT_EQ(0, log_.followers());
}

TEST_F(EventStreamTest, MayEndBeforeTheServer) {
  serve({});
  auto client = open("");
  stream_.reset();
  client.ends();
  EXPECT_EQ(503, refused(""));
}

TEST_F(EventStreamTest, MayEndAfterTheServer) {
  serve({});
  auto client = open("");
  server_.stop();
  client.ends();
  EXPECT_EQ(0U, stream_->clients());
}

TEST_F(EventStreamTest, Security3_11_WantsItsToken) {
  serve({.token = "0123456789abcdef"});
  EXPECT_EQ(401, refused(""));
  EXPECT_EQ(401, refused("?token=0123456789abcdef"));
  for (const char* shown : {"Bearer 0123456789abcdeF", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Bearer ",
                            "Basic 0123456789abcdef", "0123456789abcdef", ""})
    EXPECT_EQ(401, refused("", fmt::format("Authorization: {}\r\n", shown))) << shown;
  log_.append_many(1);
  auto client = open("?from=beginning", "Authorization: Bearer 0123456789abcdef\r\n");
  expect(client, 0, 0);
  open("", "authorization: bearer 0123456789abcdef\r\n");
}

}  // namespace
}  // namespace waybill
