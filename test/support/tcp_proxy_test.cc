#include "support/tcp_proxy.h"

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace waybill {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// One end of a connection, blocking.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {
    const timeval patience{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~Peer() { close(); }
  Peer(Peer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Peer& operator=(Peer&&) = delete;

  // The error; 0 if it went well.
  static int connect(int fd, std::uint16_t port) {
    sockaddr_in address = loopback(port);
    return ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  }
  static Peer connected_to(std::uint16_t port) {
    Peer peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(0, connect(peer.fd_, port));
    return peer;
  }

  void send(std::string_view bytes) const {
    EXPECT_EQ(static_cast<ssize_t>(bytes.size()), ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  // So many bytes; fewer if the connection ended before.
  std::string read(std::size_t bytes) const {
    std::string all(bytes, '\0');
    std::size_t size = 0;
    while (size < bytes) {
      const ssize_t count = ::recv(fd_, all.data() + size, bytes - size, 0);
      if (count <= 0) break;
      size += static_cast<std::size_t>(count);
    }
    all.resize(size);
    return all;
  }
  // Waits for the end: 0 if it is a proper one, the error otherwise.
  int end() const {
    char byte = 0;
    const ssize_t count = ::recv(fd_, &byte, 1, 0);
    EXPECT_LE(count, 0) << "there was more to read";
    return count == 0 ? 0 : errno;
  }
  // True if neither a byte nor an end has come. What is about to come gets a moment's time.
  bool hears_nothing() const {
    pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, 50) == 0;
  }
  // Sends until nobody takes any more; how much that was.
  std::size_t fill() const {
    const std::string bytes(65'536, 'x');
    std::size_t all = 0;
    pollfd waiting{.fd = fd_, .events = POLLOUT, .revents = 0};
    while (::poll(&waiting, 1, 100) > 0) {
      const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) all += static_cast<std::size_t>(count);
    }
    return all;
  }
  void shut() const { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

class TcpProxyTest : public testing::Test {
 protected:
  TcpProxyTest() {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(0, ::bind(listener_, generic, size));
    EXPECT_EQ(0, ::listen(listener_, 16));
    EXPECT_EQ(0, ::getsockname(listener_, generic, &size));
    proxy_.emplace(ntohs(address.sin_port));
  }
  ~TcpProxyTest() override { stop_server(); }

  void stop_server() {
    if (listener_ >= 0) ::close(std::exchange(listener_, -1));
  }
  Peer client() { return Peer::connected_to(proxy_->port()); }
  Peer server() { return Peer(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)); }
  bool server_hears_of_nobody() const {
    pollfd waiting{.fd = listener_, .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, 50) == 0;
  }
  bool connections_become(std::size_t count) {
    for (int i = 0; i < 6'000; ++i) {
      if (proxy_->connections() == count) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }

  // Both ways, and to its end.
  void expect_to_work() {
    Peer there = client();
    const Peer here = server();
    there.send("question");
    EXPECT_EQ("question", here.read(8));
    here.send("answer");
    EXPECT_EQ("answer", there.read(6));
    there.close();
    EXPECT_EQ(0, here.end());
  }

  int listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::optional<TcpProxy> proxy_;
};

TEST_F(TcpProxyTest, PassesBytesBothWaysAndTheEnd) {
  const Peer there = client();
  Peer here = server();
  EXPECT_EQ(1U, proxy_->connections());
  there.send("question");
  EXPECT_EQ("question", here.read(8));
  there.shut();
  EXPECT_EQ(0, here.end());
  here.send("late answer");
  here.close();
  EXPECT_EQ("late answer", there.read(100));
  EXPECT_EQ(0, there.end());
  EXPECT_TRUE(connections_become(0));
  EXPECT_EQ(1U, proxy_->accepted());
}

TEST_F(TcpProxyTest, PassesManyConnectionsAndManyBytes) {
  std::string bytes(std::size_t{20} << 20, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 / 3);
  const Peer there = client();
  const Peer here = server();
  const Peer others[] = {client(), client(), client()};
  std::thread sender([&] { there.send(bytes); });
  EXPECT_EQ(bytes, here.read(bytes.size()));
  sender.join();
  EXPECT_EQ(4U, proxy_->connections());
}

TEST_F(TcpProxyTest, AServerThatIsAwayResetsTheClient) {
  stop_server();
  EXPECT_EQ(ECONNRESET, client().end());
  EXPECT_TRUE(connections_become(0));
}

TEST_F(TcpProxyTest, AResetOfOneSideReachesTheOther) {
  const Peer there = client();
  Peer here = server();
  there.send("unread");
  EXPECT_EQ("un", here.read(2));
  here.close();  // With bytes unread this is a RST.
  EXPECT_EQ(ECONNRESET, there.end());
}

TEST_F(TcpProxyTest, DelaysInBothDirections) {
  const Peer there = client();
  const Peer here = server();
  proxy_->delay(60ms);
  const auto begin = steady_clock::now();
  there.send("question");
  EXPECT_EQ("question", here.read(8));
  EXPECT_GE(steady_clock::now() - begin, 60ms);
  here.send("answer");
  EXPECT_EQ("answer", there.read(6));
  EXPECT_GE(steady_clock::now() - begin, 120ms);
}

TEST_F(TcpProxyTest, WhatIsDelayedArrivesAtOnceAfterPass) {
  const Peer there = client();
  const Peer here = server();
  proxy_->delay(std::chrono::hours(1));
  there.send("question");
  there.shut();
  EXPECT_TRUE(here.hears_nothing());
  proxy_->pass();
  EXPECT_EQ("question", here.read(8));
  EXPECT_EQ(0, here.end());
}

TEST_F(TcpProxyTest, ABlackHoleIsSilentBothWaysUntilItPassesAgain) {
  const Peer there = client();
  const Peer here = server();
  proxy_->black_hole();
  there.send("question");
  there.shut();
  here.send("answer");
  EXPECT_TRUE(here.hears_nothing());
  EXPECT_TRUE(there.hears_nothing());
  EXPECT_EQ(1U, proxy_->connections());
  proxy_->pass();
  EXPECT_EQ("question", here.read(8));
  EXPECT_EQ(0, here.end());
  EXPECT_EQ("answer", there.read(6));
}

TEST_F(TcpProxyTest, ABlackHoleInOneDirectionLeavesTheOther) {
  const Peer there = client();
  const Peer here = server();
  proxy_->black_hole(Direction::to_client);
  there.send("question");
  EXPECT_EQ("question", here.read(8));
  here.send("answer");
  EXPECT_TRUE(there.hears_nothing());
  proxy_->black_hole(Direction::to_server);
  EXPECT_EQ("answer", there.read(6));
  there.send("question");
  EXPECT_TRUE(here.hears_nothing());
}

TEST_F(TcpProxyTest, ABlackHoleHidesThatASideIsGone) {
  Peer there = client();
  Peer here = server();
  proxy_->black_hole(Direction::to_server);
  there.close();
  here.send("one");
  EXPECT_TRUE(here.hears_nothing());
  here.send("two");
  EXPECT_TRUE(here.hears_nothing());
  proxy_->pass();
  EXPECT_LE(0, here.end());  // It hears of it, one way or the other.
  here.close();
  EXPECT_TRUE(connections_become(0));

  const Peer other = client();
  Peer gone = server();
  proxy_->black_hole(Direction::to_client);
  gone.close();
  other.send("one");
  EXPECT_TRUE(other.hears_nothing());
  other.send("two");
  EXPECT_TRUE(other.hears_nothing());
}

TEST_F(TcpProxyTest, ABlackHoleFillsTheSendersBuffers) {
  const Peer there = client();
  const Peer here = server();
  proxy_->black_hole();
  const std::size_t bytes = there.fill();
  EXPECT_GT(bytes, 0U);
  proxy_->pass();
  EXPECT_EQ(bytes, here.read(bytes).size());
}

TEST_F(TcpProxyTest, ABlackHoleTakesNewConnectionsAndSaysNothing) {
  proxy_->black_hole();
  const Peer there = client();
  there.send("question");
  EXPECT_EQ(1U, proxy_->connections());
  EXPECT_TRUE(server_hears_of_nobody());
  EXPECT_TRUE(there.hears_nothing());
  proxy_->pass();
  const Peer here = server();
  EXPECT_EQ("question", here.read(8));

  proxy_->black_hole(Direction::to_client);
  const Peer one_way = client();
  one_way.send("heard");
  const Peer hearing = server();
  EXPECT_EQ("heard", hearing.read(5));
  hearing.send("answer");
  EXPECT_TRUE(one_way.hears_nothing());
}

TEST_F(TcpProxyTest, ResetsWhatIsThereAndNothingElse) {
  const Peer there = client();
  const Peer here = server();
  there.send("question");
  EXPECT_EQ("question", here.read(8));
  proxy_->reset();
  EXPECT_EQ(ECONNRESET, there.end());
  EXPECT_EQ(ECONNRESET, here.end());
  EXPECT_EQ(0U, proxy_->connections());
  expect_to_work();
}

TEST_F(TcpProxyTest, CutsAfterSoManyBytesToTheServer) {
  const Peer there = client();
  const Peer here = server();
  there.send("before");
  EXPECT_EQ("before", here.read(6));
  proxy_->cut_after(3, Direction::to_server);
  there.send("que");
  EXPECT_EQ("que", here.read(3));
  here.send("answer");
  EXPECT_EQ("answer", there.read(6));
  there.send("stion");
  EXPECT_EQ(0, here.end());
  EXPECT_EQ(ECONNRESET, there.end());
  const Peer next = client();
  const Peer again = server();
  next.send("question");
  EXPECT_EQ("que", again.read(8));
  proxy_->pass();
  expect_to_work();
}

TEST_F(TcpProxyTest, CutsTheNextAnswerToTheClient) {
  const Peer there = client();
  const Peer here = server();
  proxy_->cut_after(0, Direction::to_client);
  there.send("question");
  EXPECT_EQ("question", here.read(8));
  EXPECT_TRUE(there.hears_nothing());
  here.send("answer");
  EXPECT_EQ("", there.read(6));
  EXPECT_EQ(ECONNRESET, here.end());
}

TEST_F(TcpProxyTest, CutsInEitherDirection) {
  proxy_->cut_after(2, Direction::both);
  const Peer there = client();
  const Peer here = server();
  there.send("12");
  EXPECT_EQ("12", here.read(2));
  here.send("345");
  EXPECT_EQ("34", there.read(3));
}

TEST_F(TcpProxyTest, RefusesUntilItPassesAgain) {
  const std::uint16_t port = proxy_->port();
  const Peer there = client();
  const Peer here = server();
  proxy_->refuse();
  EXPECT_EQ(ECONNRESET, there.end());
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(ECONNREFUSED, Peer::connect(fd, port));
  ::close(fd);
  proxy_->refuse();
  proxy_->pass();
  EXPECT_EQ(port, proxy_->port());
  expect_to_work();
}

TEST_F(TcpProxyTest, GoesWithConnectionsOpen) {
  const Peer there = client();
  const Peer here = server();
  const Peer held = client();
  proxy_->black_hole();
  proxy_.reset();
  EXPECT_LE(0, there.end());
  EXPECT_LE(0, here.end());
}

}  // namespace
}  // namespace waybill
