#include "app/notify.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace waybill::app {

Notifier::Notifier(const config::Environment& environment) {
  const auto variable = environment.find("NOTIFY_SOCKET");
  if (variable != environment.end()) socket_ = variable->second;
}

void Notifier::ready() const {
  send("READY=1\nSTATUS=relaying\n");
}

// The time lets systemd tell this reload's ready() from an earlier one; steady_clock is CLOCK_MONOTONIC, as it wants.
void Notifier::reloading() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reloading\n",
                   std::chrono::floor<std::chrono::microseconds>(now).count()));
}

void Notifier::stopping() const {
  send("STOPPING=1\nSTATUS=finishing what is under way\n");
}

// The time is longer than an attempt to connect lasts, and the pause after it.
void Notifier::waiting(std::string status) const {
  constexpr std::chrono::microseconds next_sign = std::chrono::minutes(2);
  std::replace_if(
      status.begin(), status.end(), [](char c) { return c == '\n'; }, ' ');
  send(fmt::format("EXTEND_TIMEOUT_USEC={}\nSTATUS={}\n", next_sign.count(), status));
}

void Notifier::send(const std::string& text) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.empty() || socket_.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_[0] == '@') address.sun_path[0] = '\0';  // an abstract one
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  ::sendto(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&address),
           size);
  ::close(fd);
}

}  // namespace waybill::app
