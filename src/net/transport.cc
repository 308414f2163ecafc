#include "net/transport.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "waybill/error.h"

#include "net/tls.h"

namespace waybill::net {
namespace {

[[noreturn]] void fail(int error) {
  throw Error(Remedy::retry, std::strerror(error));
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// Anew for every connection: names move.
Addresses look_up(const Host& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.name.c_str(), std::to_string(host.port).c_str(), &hints, &found);
  if (status != 0)
    throw Error(Remedy::retry, fmt::format("the name cannot be looked up: {}",
                                           status == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(status)));
  return {found, ::freeaddrinfo};
}

// No TCP_USER_TIMEOUT: it would also end a connection whose other side is alive and, short of memory, reads nothing for
// a while. Heartbeats tell the two apart.
int connect_to(const addrinfo& address, const Patience& patience, Steady deadline) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) fail(errno);
  const int on = 1;
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) fail(errno);
    patience.wait(socket.fd(), true, deadline);
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) fail(errno);
    if (error != 0) fail(error);
  }
  return socket.release();
}

// The time that is left is shared by the addresses that are, so that a dead one does not use it up.
int connect_to_any(const Host& host, const Patience& patience, Steady deadline) {
  patience.check(deadline);
  const Addresses addresses = look_up(host);
  int left = 0;
  for (const addrinfo* each = addresses.get(); each; each = each->ai_next) ++left;
  for (const addrinfo* each = addresses.get();; each = each->ai_next, --left) {
    const Steady now = std::chrono::steady_clock::now();
    try {
      return connect_to(*each, patience, now + (deadline - now) / left);
    } catch (const Error&) {
      if (left == 1) throw;
    }
  }
}

}  // namespace

bool Patience::try_wait(int fd, bool or_written, Steady deadline) const {
  do {
    if (called_off_()) throw Error(Remedy::retry, "called off");
  } while (waker_.wait(deadline, fd, or_written));
  return std::chrono::steady_clock::now() < deadline;
}

void Patience::wait(int fd, bool or_written, Steady deadline) const {
  if (!try_wait(fd, or_written, deadline)) throw Error(Remedy::retry, "no answer in time");
}

void Patience::check(Steady deadline) const {
  if (called_off_()) throw Error(Remedy::retry, "called off");
  if (std::chrono::steady_clock::now() >= deadline) throw Error(Remedy::retry, "no answer in time");
}

Transport::Transport(const Host& host, const Patience& patience, Steady deadline)
    : fd_(connect_to_any(host, patience, deadline)) {}

void Transport::secure(const TlsOptions& tls, const Host& host, const Patience& patience, Steady deadline) {
  auto session = std::make_unique<TlsSession>(tls, host.name, fd_);
  while (!session->shake_hands()) patience.wait(fd_, session->waits_for_room(), deadline);
  tls_ = std::move(session);
}

std::optional<Time> Transport::trusted_until() const {
  return tls_ ? std::optional(tls_->trusted_until()) : std::nullopt;
}

Transport::~Transport() {
  tls_.reset();
  ::close(fd_);
}

std::size_t Transport::write(std::string_view bytes) {
  if (tls_) return tls_->write(bytes);
  while (true) {
    const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) fail(errno);
  }
}

std::size_t Transport::read(std::span<char> buffer) {
  if (tls_) return tls_->read(buffer);
  while (true) {
    const ssize_t count = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (count > 0) return static_cast<std::size_t>(count);
    if (count == 0) throw Error(Remedy::retry, "it has closed the connection");
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) fail(errno);
  }
}

bool Transport::waits_for_room() const {
  return !tls_ || tls_->waits_for_room();
}

}  // namespace waybill::net
