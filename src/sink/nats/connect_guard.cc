#include "sink/nats/connect_guard.h"

#include <charconv>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace waybill::nats {
namespace {

struct InUse {
  std::mutex mutex;
  std::set<int> sockets;  // guarded by mutex
};

InUse& in_use() {
  static InUse* const all = new InUse;  // Never freed: threads may outlive main().
  return *all;
}

bool leads_to(int socket, std::uint16_t port) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  if (peer.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(peer).sin_port) == port;
  if (peer.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(peer).sin6_port) == port;
  return false;
}

// All sockets of this process: the number, the same under a name of our own (the number may be closed and given to
// another file meanwhile), and the inode.
template <typename Visit>
void visit_sockets(const Visit& visit) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string name = entry.path().filename();
    int number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    const int file = number < 0 ? -1 : ::fcntl(number, F_DUPFD_CLOEXEC, 0);
    if (file < 0) continue;
    struct stat status {};
    if (::fstat(file, &status) == 0 && S_ISSOCK(status.st_mode)) visit(number, file, status.st_ino);
    ::close(file);
  }
}

std::set<std::uint64_t> sockets_of_now() {
  std::set<std::uint64_t> inodes;
  visit_sockets([&](int, int, std::uint64_t inode) { inodes.insert(inode); });
  return inodes;
}

}  // namespace

ConnectGuard::ConnectGuard(std::uint16_t port, Steady deadline)
    : port_(port), before_(sockets_of_now()), thread_([this, deadline] { watch(deadline); }) {}

ConnectGuard::~ConnectGuard() {
  {
    const std::scoped_lock lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ConnectGuard::spare(int socket) {
  const std::scoped_lock lock(in_use().mutex);
  in_use().sockets.insert(socket);
}

void ConnectGuard::forget(int socket) {
  const std::scoped_lock lock(in_use().mutex);
  in_use().sockets.erase(socket);
}

void ConnectGuard::watch(Steady deadline) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_until(lock, deadline, [this] { return done_; })) {
    shut_down_sockets();
    deadline = system_clock().steady() + std::chrono::milliseconds(100);
  }
}

void ConnectGuard::shut_down_sockets() const {
  visit_sockets([this](int number, int socket, std::uint64_t inode) {
    const std::scoped_lock lock(in_use().mutex);
    if (before_.contains(inode) || in_use().sockets.contains(number) || !leads_to(socket, port_)) return;
    ::shutdown(socket, SHUT_RDWR);
  });
}

}  // namespace waybill::nats
