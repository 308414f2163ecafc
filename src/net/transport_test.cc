#include "net/transport.h"

#include <array>
#include <atomic>
#include <thread>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "waybill/error.h"

#include "net/output.h"

namespace waybill::net {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Steady in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

// A port of loopback on which nothing is ever said first.
class Listener {
 public:
  explicit Listener(bool listening = true) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(0, ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), size));
    EXPECT_EQ(0, ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size));
    EXPECT_EQ(0, listening ? ::listen(fd_, 1) : 0);
    host_ = {.name = "127.0.0.1", .port = ntohs(address.sin_port)};
  }
  ~Listener() {
    if (peer_ >= 0) ::close(peer_);
    ::close(fd_);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const Host& host() const { return host_; }
  void accept() { peer_ = ::accept(fd_, nullptr, nullptr); }
  void say(std::string_view text) { EXPECT_EQ(ssize(text), ::send(peer_, text.data(), text.size(), 0)); }
  std::string hear() {
    std::array<char, 65536> buffer{};
    const auto count = ::recv(peer_, buffer.data(), buffer.size(), 0);
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
  }
  void hang_up() {
    ::close(peer_);
    peer_ = -1;
  }

 private:
  static std::ptrdiff_t ssize(std::string_view text) { return static_cast<std::ptrdiff_t>(text.size()); }

  int fd_;
  int peer_ = -1;
  Host host_;
};

class TransportTest : public testing::Test {
 protected:
  template <typename Doing>
  std::string trouble(const Doing& doing) {
    try {
      doing();
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::retry, error.remedy());
      return error.what();
    }
    return "none";
  }

  Waker waker_;
  std::atomic<bool> called_off_{false};
  const Patience patience_{waker_, [this] { return called_off_.load(); }};
};

TEST_F(TransportTest, CarriesBytesBothWays) {
  Listener listener;
  Transport transport(listener.host(), patience_, in(10s));
  listener.accept();
  std::array<char, 16> buffer{};
  EXPECT_EQ(0U, transport.read(buffer)) << "nothing is there, and nobody waits";
  listener.say("hello");
  patience_.wait(transport.fd(), false, in(10s));
  EXPECT_EQ("hello", std::string(buffer.data(), transport.read(buffer)));
  EXPECT_EQ(3U, transport.write("hey"));
  EXPECT_EQ("hey", listener.hear());
  listener.hang_up();
  patience_.wait(transport.fd(), false, in(10s));
  EXPECT_EQ("it has closed the connection", trouble([&] { transport.read(buffer); }));
}

TEST_F(TransportTest, SaysWhyThereIsNoConnection) {
  const Listener deaf(/*listening=*/false);
  EXPECT_THAT(trouble([&] { Transport(deaf.host(), patience_, in(10s)); }), HasSubstr("refused"));
  EXPECT_THAT(trouble([&] { Transport({.name = "no-such-host.invalid", .port = 1}, patience_, in(10s)); }),
              HasSubstr("looked up"));
}

TEST_F(TransportTest, NobodyIsWaitedForBeyondTheDeadline) {
  const Listener silent;
  Transport transport(silent.host(), patience_, in(10s));
  EXPECT_FALSE(patience_.try_wait(transport.fd(), false, in(20ms)));
  EXPECT_EQ("no answer in time", trouble([&] { transport.secure({.on = true}, silent.host(), patience_, in(50ms)); }));
}

TEST_F(TransportTest, AWaitIsCalledOff) {
  const Listener silent;
  Transport transport(silent.host(), patience_, in(10s));
  const std::jthread other([this] {
    waker_.wake();  // For something else; the wait goes on.
    called_off_ = true;
    waker_.wake();
  });
  EXPECT_EQ("called off", trouble([&] { patience_.wait(transport.fd(), false, in(60s)); }));
  EXPECT_EQ("called off", trouble([&] { Transport(silent.host(), patience_, in(60s)); }));
}

TEST_F(TransportTest, WhatIsNotTakenNowIsWrittenLater) {
  Listener listener;
  Transport transport(listener.host(), patience_, in(10s));
  listener.accept();
  std::string all;
  for (int i = 0; all.size() < (std::size_t{24} << 20); ++i) all += std::to_string(i);
  Output output;
  output.end() += all;
  EXPECT_TRUE(output.flush(transport));
  EXPECT_EQ(all.size(), output.appended());
  EXPECT_GT(output.unwritten(), 0U) << "more than the system takes at once";
  std::string heard;
  while (heard.size() < all.size()) {
    EXPECT_EQ(output.appended(), output.written() + output.unwritten());
    heard += listener.hear();
    output.flush(transport);
  }
  EXPECT_TRUE(heard == all);
  EXPECT_EQ(0U, output.unwritten());
}

TEST(HostTest, IsShownAsPeopleWriteIt) {
  EXPECT_EQ("rabbit:5672", (Host{.name = "rabbit", .port = 5672}.text()));
  EXPECT_EQ("[::1]:4222", (Host{.name = "::1", .port = 4222}.text()));
}

}  // namespace
}  // namespace waybill::net
