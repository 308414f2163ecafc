#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "http/server.h"
#include "support/raw_http_client.h"

namespace waybill::http {
namespace {

using std::chrono_literals::operator""ms;

// What the test feeds to one stream. Thread-safe.
class Feed {
 public:
  explicit Feed(Wake wake) : wake_(std::move(wake)) {}

  void say(std::string text) {
    {
      const std::lock_guard lock(mutex_);
      texts_.push_back(std::move(text));
    }
    wake_();
  }
  void decide(std::optional<int> status) {
    {
      const std::lock_guard lock(mutex_);
      status_ = status;
    }
    wake_();
  }
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_();
  }

  std::optional<Response> open() {
    const std::lock_guard lock(mutex_);
    if (!status_) return std::nullopt;
    return Response{.status = *status_, .content_type = "text/event-stream", .body = *status_ == 200 ? "" : "no"};
  }
  Pull pull(std::span<char> out, std::chrono::milliseconds again) {
    const std::lock_guard lock(mutex_);
    if (texts_.empty()) return {.again = std::chrono::steady_clock::now() + again, .end = ended_};
    auto& text = texts_.front();
    const auto size = std::min(text.size(), out.size());
    std::memcpy(out.data(), text.data(), size);
    text.erase(0, size);
    if (text.empty()) texts_.pop_front();
    return {.bytes = size};
  }

 private:
  const Wake wake_;
  std::mutex mutex_;
  std::deque<std::string> texts_;
  std::optional<int> status_ = 200;
  bool ended_ = false;
};

class StreamTest : public testing::Test {
 protected:
  class FedSource final : public Source {
   public:
    FedSource(std::shared_ptr<Feed> feed, std::atomic<int>& pulls) : feed_(std::move(feed)), pulls_(pulls) {}
    std::optional<Response> open() override { return feed_->open(); }
    Pull pull(std::span<char> out) override {
      ++pulls_;
      return feed_->pull(out, 20ms);
    }

   private:
    std::shared_ptr<Feed> feed_;
    std::atomic<int>& pulls_;
  };

  explicit StreamTest(std::chrono::milliseconds stall_timeout = 60'000ms)
      : server_({.connections_max = 260, .streams_max = 210, .stall_timeout = stall_timeout}) {
    server_.route("GET", "/s", [this](const Request& request) -> Answer {
      auto feed = std::make_shared<Feed>(request.wake);
      if (find(request.query, "undecided")) feed->decide(std::nullopt);
      const std::lock_guard lock(mutex_);
      feeds_.push_back(feed);
      return std::make_unique<FedSource>(feed, pulls_);
    });
    server_.route("GET", "/plain", [](const Request&) { return Response{.body = "plain"}; });
    server_.start();
  }

  std::shared_ptr<Feed> feed(std::size_t number) {
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (number < feeds_.size()) return feeds_[number];
      }
      std::this_thread::sleep_for(1ms);
    }
  }
  RawClient open() {
    RawClient c(server_.port());
    EXPECT_EQ(200, c.get("/s").status);
    return c;
  }
  void await_streams(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (server_.streams() != count && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(count, server_.streams());
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Feed>> feeds_;
  std::atomic<int> pulls_ = 0;
  Server server_;
};

class HastyStreamTest : public StreamTest {
 protected:
  HastyStreamTest() : StreamTest(300ms) {}
};

TEST_F(StreamTest, BringsWhatComesWhenItComes) {
  auto c = open();
  feed(0)->say("one\n");
  EXPECT_EQ("one\n", c.read_until("\n"));
  std::this_thread::sleep_for(50ms);  // Meanwhile it is suspended, and asked again by its own wish.
  feed(0)->say("two\n");
  EXPECT_EQ("two\n", c.read_until("\n"));
  feed(0)->end();
  EXPECT_TRUE(c.ends());
  await_streams(0);
  EXPECT_EQ("plain", c.get("/plain").body);  // The connection serves on.
}

TEST_F(StreamTest, IsNotAskedInALoopWhileThereIsNothing) {
  auto c = open();
  std::this_thread::sleep_for(200ms);
  EXPECT_LE(pulls_, 30);  // It wanted to be asked every 20 ms.
}

TEST_F(StreamTest, MayDecideLater) {
  RawClient c(server_.port());
  c.ask("GET", "/s?undecided");
  feed(0)->decide(410);
  const auto reply = c.read_reply();
  EXPECT_EQ(410, reply.status);
  EXPECT_EQ("no", reply.body);
  c.ask("GET", "/s?undecided");
  feed(1)->decide(200);
  EXPECT_EQ(200, c.read_reply().status);
  feed(1)->say("one\n");
  EXPECT_EQ("one\n", c.read_until("\n"));
}

TEST_F(StreamTest, AClientMayLeaveBeforeItIsDecided) {
  {
    RawClient c(server_.port());
    c.ask("GET", "/s?undecided");
    feed(0);
    await_streams(1);
  }
  await_streams(0);
}

TEST_F(StreamTest, HeadAsksForNothing) {
  RawClient c(server_.port());
  c.ask("HEAD", "/s");
  EXPECT_EQ(200, c.read_reply(false).status);
  await_streams(0);
  EXPECT_EQ("plain", c.get("/plain").body);
  EXPECT_EQ(0, pulls_);
}

TEST_F(StreamTest, ServesTwoHundredAtOnce) {
  std::vector<RawClient> clients;
  for (int i = 0; i < 200; ++i) clients.push_back(open());
  await_streams(200);
  for (int round = 0; round < 5; ++round)
    for (std::size_t i = 0; i < clients.size(); ++i) feed(i)->say(fmt::format("{}/{}\n", i, round));
  for (std::size_t i = 0; i < clients.size(); ++i)
    for (int round = 0; round < 5; ++round) EXPECT_EQ(fmt::format("{}/{}\n", i, round), clients[i].read_until("\n"));
  RawClient plain(server_.port());
  EXPECT_EQ("plain", plain.get("/plain").body);
  clients.clear();
  await_streams(0);  // Noticed without anything being sent.
}

TEST_F(StreamTest, LeavesRoomForPlainRequests) {
  std::vector<RawClient> clients;
  for (int i = 0; i < 210; ++i) clients.push_back(open());
  RawClient one_more(server_.port());
  const auto reply = one_more.get("/s");
  EXPECT_EQ(503, reply.status);
  EXPECT_EQ("5", reply.headers.at("retry-after"));
  EXPECT_EQ("plain", one_more.get("/plain").body);
}

TEST_F(StreamTest, ASlowClientIsReadSlowlyAndAloneWaits) {
  RawClient slow(server_.port(), 4096);
  EXPECT_EQ(200, slow.get("/s").status);
  auto quick = open();
  for (int i = 0; i < 200; ++i) feed(0)->say(std::string(10'000, 's') + fmt::format("{}\n", i));
  feed(1)->say("quick\n");
  EXPECT_EQ("quick\n", quick.read_until("\n"));
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(slow.read_until("\n").ends_with(fmt::format("s{}\n", i)));
}

TEST_F(HastyStreamTest, AClientThatTakesNothingIsCut) {
  RawClient stuck(server_.port(), 4096);
  EXPECT_EQ(200, stuck.get("/s").status);
  for (int i = 0; i < 200; ++i) feed(0)->say(std::string(10'000, 's'));
  await_streams(0);
}

TEST_F(StreamTest, StopsWithOpenStreams) {
  std::vector<RawClient> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(open());
  feed(3)->say("something");
  server_.stop();
  EXPECT_EQ(0U, server_.streams());
  feed(4)->say("too late");  // A wake after the end does nothing.
  EXPECT_TRUE(clients[0].ends());
}

TEST_F(StreamTest, WakesFromManyThreadsLoseNothing) {
  std::vector<RawClient> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(open());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([f = feed(i)] {
      for (int n = 0; n < 500; ++n) f->say(fmt::format("{}\n", n));
    });
  }
  for (auto& c : clients)
    for (int n = 0; n < 500; ++n) ASSERT_EQ(fmt::format("{}\n", n), c.read_until("\n"));
}

}  // namespace
}  // namespace waybill::http
