#pragma once

// Just enough HTTP/1.1 for an example: a thread for each connection, one request on each. A service has its framework.

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace http {

struct Request {
  std::string method{};
  std::string path{};
  std::map<std::string, std::string> headers{};  // names in lower case
  std::string body{};
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
};

namespace detail {

constexpr std::size_t request_bytes_max = std::size_t{1024} * 1024;

// Reads until `complete`; false: the client has gone, or sends too much.
template <typename Complete>
bool read_until(int client, std::string& text, const Complete& complete) {
  std::vector<char> buffer(16 * 1024);
  while (!complete()) {
    const ssize_t bytes = ::recv(client, buffer.data(), buffer.size(), 0);
    if (bytes <= 0 || text.size() + static_cast<std::size_t>(bytes) > request_bytes_max) return false;
    text.append(buffer.data(), static_cast<std::size_t>(bytes));
  }
  return true;
}

inline bool read_request(int client, Request& request) {
  std::string text;
  std::size_t head = std::string::npos;
  if (!read_until(client, text, [&] { return (head = text.find("\r\n\r\n")) != std::string::npos; })) return false;
  const std::size_t first_space = text.find(' ');
  const std::size_t second_space = text.find(' ', first_space + 1);
  if (second_space >= head) return false;
  request.method = text.substr(0, first_space);
  request.path = text.substr(first_space + 1, second_space - first_space - 1);
  for (std::size_t at = text.find("\r\n") + 2; at < head;) {
    const std::size_t end = text.find("\r\n", at);
    const std::size_t colon = text.find(':', at);
    if (colon >= end) return false;
    std::string name = text.substr(at, colon - at);
    for (char& letter : name) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    const std::size_t value = text.find_first_not_of(" \t", colon + 1);
    request.headers[name] = value < end ? text.substr(value, end - value) : "";
    at = end + 2;
  }
  std::size_t length = 0;
  const std::string& stated = request.headers["content-length"];
  std::from_chars(stated.data(), stated.data() + stated.size(), length);
  request.body = text.substr(head + 4);
  return read_until(client, request.body, [&] { return request.body.size() >= length; });
}

inline void answer(int client, const Response& response) {
  std::string text = "HTTP/1.1 " + std::to_string(response.status) + " -\r\nContent-Type: " + response.content_type +
                     "\r\nContent-Length: " + std::to_string(response.body.size()) + "\r\nConnection: close\r\n\r\n" +
                     response.body;
  for (ssize_t sent = 0; !text.empty() && sent >= 0;
       text.erase(0, static_cast<std::size_t>(std::max<ssize_t>(sent, 0))))
    sent = ::send(client, text.data(), text.size(), MSG_NOSIGNAL);
}

// What it throws is the end of the request, and not of the process.
inline Response handled(const std::function<Response(const Request&)>& handle, const Request& request) {
  try {
    return handle(request);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return {.status = 500, .content_type = "text/plain", .body = "it did not work\n"};
  }
}

}  // namespace detail

// Serves on 127.0.0.1 until `stop`, and returns when all are answered. `handle` is called by many threads at once; what
// it throws is answered with 500.
inline void serve(std::uint16_t port, const std::stop_token& stop,
                  const std::function<Response(const Request&)>& handle) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(listener, static_cast<sockaddr*>(static_cast<void*>(&address)), sizeof address) != 0 ||
      ::listen(listener, 128) != 0)
    throw std::runtime_error("cannot listen on port " + std::to_string(port));
  std::atomic<int> busy = 0;
  while (!stop.stop_requested()) {
    pollfd ready{.fd = listener, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, 50) <= 0) continue;
    const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ++busy;
    std::thread([client, &busy, &handle] {
      Request request;
      if (detail::read_request(client, request)) detail::answer(client, detail::handled(handle, request));
      ::close(client);
      --busy;
    }).detach();
  }
  ::close(listener);
  while (busy > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace http
