#include "http/listener.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "waybill/error.h"

#include "base/loopback.h"

namespace waybill::http {
namespace {

// What the kernel holds for a client that reads slowly; by itself it would take megabytes for each.
constexpr int send_buffer_bytes = 64 * 1024;
constexpr int backlog = 256;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

std::optional<Address> loopback(const std::string& text, std::uint16_t port) {
  if (!is_loopback(text)) return std::nullopt;
  Address address;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    address.size = sizeof v4;
    std::memcpy(&address.storage, &v4, sizeof v4);
    return address;
  }
  if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    address.size = sizeof v6;
    std::memcpy(&address.storage, &v6, sizeof v6);
    return address;
  }
  return std::nullopt;
}

std::uint16_t port_of(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size);
  // The port is at the same place in both families.
  sockaddr_in in{};
  std::memcpy(&in, &storage, sizeof in);
  return ntohs(in.sin_port);
}

bool open_on(int fd, const Address& address) {
  const int on = 1;
  const int bytes = send_buffer_bytes;
  return fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
         ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0 &&
         ::bind(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0 &&
         ::listen(fd, backlog) == 0;
}

}  // namespace

Listener::Listener(const std::string& address, std::uint16_t port)
    : address_(address == "localhost" ? "127.0.0.1" : address) {
  const auto where = loopback(address_, port);
  if (!where) {
    throw Error(Remedy::fix_config,
                fmt::format("http: '{}' is no loopback address, and what is served here asks for no password; "
                            "use 127.0.0.1, ::1 or localhost",
                            address));
  }
  fd_ = ::socket(where->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (!open_on(fd_, *where)) {
    const int error = errno;
    if (fd_ >= 0) ::close(fd_);
    throw Error(Remedy::fix_config,
                fmt::format("http: cannot listen on {} port {}: {}{}", address_, port, std::strerror(error),
                            error == EADDRINUSE ? "; choose another port, or 0 for any free one" : ""));
  }
  port_ = port_of(fd_);
}

Listener::~Listener() {
  if (fd_ >= 0) ::close(fd_);
}

int Listener::release() {
  return std::exchange(fd_, -1);
}

}  // namespace waybill::http
