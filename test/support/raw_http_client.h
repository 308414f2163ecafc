#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "http/message.h"

namespace waybill::http {

struct Reply {
  int status = 0;
  Fields headers{};
  std::string body{};  // Of a stream: nothing, see RawClient::read_until.
};

// An HTTP client that sends what it is told, byte by byte, so that it can misbehave.
// Blocking; gives up with an exception when nothing comes for ten seconds.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer_bytes = 0)
      : port_(port), fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (receive_buffer_bytes > 0)
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("cannot connect");
  }
  ~RawClient() {
    if (fd_ >= 0) ::close(fd_);
  }
  RawClient(RawClient&& other) noexcept
      : port_(other.port_),
        fd_(std::exchange(other.fd_, -1)),
        raw_(std::move(other.raw_)),
        text_(std::move(other.text_)) {}
  RawClient& operator=(RawClient&&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) throw std::runtime_error("the server does not take it");
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  // The usual request with a right Host header; `more` are header lines, each with its line end.
  void ask(std::string_view method, std::string_view path, std::string_view more = "", std::string_view body = "") {
    send(fmt::format("{} {} HTTP/1.1\r\nHost: localhost:{}\r\n{}\r\n{}", method, path, port_, more, body));
  }

  Reply read_reply(bool has_body = true) {
    Reply reply = read_head();
    const auto length = find(reply.headers, "content-length");
    if (!has_body || !length) return reply;
    const auto size = static_cast<std::size_t>(std::atoll(std::string(*length).c_str()));
    while (raw_.size() < size) receive();
    reply.body = take(size);
    return reply;
  }

  Reply get(std::string_view path, std::string_view more = "") {
    ask("GET", path, more);
    return read_reply();
  }

  // Reads a chunked body on until `mark` has come, and returns everything up to its end.
  std::string read_until(std::string_view mark) {
    auto at = text_.find(mark);
    while (at == std::string::npos) {
      const auto from = text_.size() < mark.size() ? 0 : text_.size() - mark.size();
      if (!read_chunk()) throw std::runtime_error("the stream ended");
      at = text_.find(mark, from);
    }
    auto result = text_.substr(0, at + mark.size());
    text_.erase(0, at + mark.size());
    return result;
  }

  // Reads on until the connection or the chunked body ends. True if nothing was left unread.
  bool ends() {
    try {
      while (read_chunk()) {
      }
      return text_.empty();
    } catch (const std::runtime_error&) {
      return closed_;
    }
  }

 private:
  Reply read_head() {
    while (raw_.find("\r\n\r\n") == std::string::npos) receive();
    const auto head = take(raw_.find("\r\n\r\n") + 4);
    Reply reply{.status = std::atoi(head.substr(9, 3).c_str())};
    for (auto at = head.find("\r\n") + 2; at < head.size() - 2;) {
      const auto end = head.find("\r\n", at);
      const auto colon = head.find(": ", at);
      auto name = head.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      reply.headers[name] = head.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    return reply;
  }

  bool read_chunk() {
    while (raw_.find("\r\n") == std::string::npos) receive();
    const auto line = raw_.find("\r\n");
    const auto size = static_cast<std::size_t>(std::strtoull(raw_.c_str(), nullptr, 16));
    while (raw_.size() < line + 2 + size + 2) receive();
    take(line + 2);
    text_ += take(size);
    take(2);
    return size > 0;
  }

  void receive() {
    const auto before = raw_.size();
    raw_.resize(before + 64 * 1024);
    const auto got = ::recv(fd_, raw_.data() + before, raw_.size() - before, 0);
    raw_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    closed_ = got == 0 || (got < 0 && errno == ECONNRESET);
    if (got <= 0) throw std::runtime_error(closed_ ? "the server has closed" : "nothing comes");
  }

  std::string take(std::size_t size) {
    auto result = raw_.substr(0, size);
    raw_.erase(0, size);
    return result;
  }

  std::uint16_t port_;
  int fd_;
  bool closed_ = false;
  std::string raw_;   // Received, not looked at yet.
  std::string text_;  // Of the chunked body, not asked for yet.
};

}  // namespace waybill::http
