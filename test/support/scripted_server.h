#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace waybill {

// A server on loopback that runs a script for each client, one after the other: a peer that is not as it should be. The
// script owns the descriptor it is given, and must end when the client is gone.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::function<void(int client)> script)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(0, ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), size));
    EXPECT_EQ(0, ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size));
    EXPECT_EQ(0, ::listen(fd_, 5));
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this, script = std::move(script)](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        pollfd waiting{fd_, POLLIN, 0};
        if (::poll(&waiting, 1, 20) > 0) script(::accept(fd_, nullptr, nullptr));
      }
    });
  }
  ~ScriptedServer() {
    thread_.request_stop();
    thread_.join();
    ::close(fd_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  int fd_;
  std::uint16_t port_ = 0;
  std::jthread thread_;
};

}  // namespace waybill
