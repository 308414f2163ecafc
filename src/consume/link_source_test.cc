#include "consume/link_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace waybill::consume {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto patience = 30s;

// What the broker of these tests does, and what it was told.
struct Broker {
  std::mutex mutex{};
  std::vector<std::string> hands_out{};  // Once.
  bool breaks = false;
  std::string refuses{};
  Remedy remedy = Remedy::retry;
  bool keeps = true;
  int links = 0;
  std::vector<std::string> told{};

  void say(std::string what) {
    const std::scoped_lock lock(mutex);
    told.push_back(std::move(what));
  }
  std::vector<std::string> heard() {
    const std::scoped_lock lock(mutex);
    return told;
  }
};

class FakeLink final : public Link {
 public:
  explicit FakeLink(Broker& broker) : broker_(broker), fd_(::eventfd(0, EFD_CLOEXEC)) {
    const std::scoped_lock lock(broker_.mutex);
    if (!broker_.refuses.empty()) throw Error(broker_.remedy, broker_.refuses);
    ++broker_.links;
  }
  ~FakeLink() override { ::close(fd_); }

  void accept(std::uint64_t number) override { broker_.say("accept " + std::to_string(number)); }
  void reject(std::uint64_t number, const std::string& reason) override {
    broker_.say("reject " + std::to_string(number) + " " + reason);
  }
  void work(std::vector<Incoming>& come, Steady /*now*/) override {
    const std::scoped_lock lock(broker_.mutex);
    for (std::string& body : std::exchange(broker_.hands_out, {}))
      come.push_back({.ticket = ++last_, .body = std::move(body)});
    if (std::exchange(broker_.breaks, false)) throw Error(Remedy::retry, "cut");
  }
  Steady work_at() const override { return std::chrono::steady_clock::now() + 1ms; }
  int fd() const override { return fd_; }
  bool waits_for_room() const override { return false; }
  const std::string& where() const override { return where_; }
  bool keeps_rejected() const override { return broker_.keeps; }
  void close(Steady /*deadline*/) noexcept override { broker_.say("goodbye"); }

 private:
  Broker& broker_;
  const int fd_;
  const std::string where_ = "fake";
  std::uint64_t last_ = 0;
};

class LinkSourceTest : public testing::Test {
 protected:
  MessageSource::Received receive() { return source_.receive(std::chrono::steady_clock::now() + patience); }
  void hand_out(std::vector<std::string> bodies) {
    const std::scoped_lock lock(broker_.mutex);
    broker_.hands_out = std::move(bodies);
  }
  void close() { source_.close(std::chrono::steady_clock::now() + patience); }

  Broker broker_;
  LinkSource source_{{.name = "test", .reconnect_max = 1ms},
                     [this](std::size_t, const net::Patience&, Steady) { return std::make_unique<FakeLink>(broker_); },
                     {}};
};

TEST_F(LinkSourceTest, BringsAndSettles) {
  hand_out({"a", "b"});
  const auto received = receive();
  ASSERT_EQ(2U, received.messages.size());
  EXPECT_FALSE(received.lost);
  EXPECT_TRUE(source_.keeps_rejected());
  EXPECT_FALSE(source_.is_away());
  source_.accept(received.messages[0].ticket);
  source_.reject(received.messages[1].ticket, "no");
  close();
  EXPECT_THAT(broker_.heard(), ElementsAre("accept 1", "reject 2 no", "goodbye")) << "told before the goodbye";
  EXPECT_TRUE(source_.is_away());
}

TEST_F(LinkSourceTest, WhatIsLostIsNotSettled) {
  hand_out({"a"});
  const auto before = receive();
  ASSERT_EQ(1U, before.messages.size());
  {
    const std::scoped_lock lock(broker_.mutex);
    broker_.breaks = true;
  }
  MessageSource::Received after = receive();
  EXPECT_TRUE(after.lost);
  hand_out({"b"});
  while (after.messages.empty()) after = receive();
  source_.accept(before.messages[0].ticket);
  source_.accept(after.messages[0].ticket);
  close();
  EXPECT_THAT(broker_.heard(), ElementsAre("accept 1", "goodbye")) << "the other one's";
  EXPECT_EQ(2, broker_.links);
}

TEST_F(LinkSourceTest, WhoeverIsRefusedFromTheBeginningIsTold) {
  broker_.refuses = "wrong password";
  broker_.remedy = Remedy::fix_config;
  try {
    receive();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_config, error.remedy());
    EXPECT_THAT(error.what(), HasSubstr("wrong password"));
  }
  close();
  broker_.refuses.clear();
  hand_out({"a"});
  EXPECT_EQ(1U, receive().messages.size());
}

TEST_F(LinkSourceTest, WhoeverWasLetInBeforeTriesAgain) {
  hand_out({"a"});
  receive();
  {
    const std::scoped_lock lock(broker_.mutex);
    broker_.refuses = "wrong password";
    broker_.remedy = Remedy::fix_config;
    broker_.breaks = true;
  }
  EXPECT_TRUE(receive().lost);
  EXPECT_TRUE(source_.receive(std::chrono::steady_clock::now() + 20ms).messages.empty());
  EXPECT_TRUE(source_.is_away());
  {
    const std::scoped_lock lock(broker_.mutex);
    broker_.refuses.clear();
    broker_.hands_out = {"b"};
  }
  EXPECT_EQ(1U, receive().messages.size());
}

TEST_F(LinkSourceTest, AWaitEndsWhenItIsWoken) {
  std::thread other([&] { source_.wake(); });
  EXPECT_TRUE(source_.receive(Steady::max()).messages.empty());
  other.join();
}

TEST_F(LinkSourceTest, AfterItWasClosedItMayBeUsedAgain) {
  hand_out({"a"});
  receive();
  close();
  close();
  hand_out({"b"});
  EXPECT_EQ(1U, receive().messages.size());
}

}  // namespace
}  // namespace waybill::consume
