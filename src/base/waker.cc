#include "base/waker.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "waybill/error.h"

namespace waybill {
namespace {

timespec time_left(Steady deadline) {
  const auto left = std::max(deadline - std::chrono::steady_clock::now(), std::chrono::nanoseconds(0));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
  return {.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
}

}  // namespace

Waker::Waker() : event_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (event_fd_ < 0)
    throw Error(Remedy::fix_config, fmt::format("cannot make an event descriptor: {}; raise the limit of open files",
                                                std::strerror(errno)));
}

Waker::~Waker() {
  ::close(event_fd_);
}

void Waker::wake() noexcept {
  const std::uint64_t one = 1;
  // Fails only if the counter is full, and then the waiter is woken already.
  [[maybe_unused]] const auto written = ::write(event_fd_, &one, sizeof one);
}

bool Waker::wait(Steady deadline, int fd, bool or_written) {
  const short events = or_written ? POLLIN | POLLOUT : POLLIN;
  std::array<pollfd, 2> waiting{pollfd{event_fd_, POLLIN, 0}, pollfd{fd, events, 0}};
  while (true) {
    const timespec left = time_left(deadline);
    const int ready = ::ppoll(waiting.data(), fd >= 0 ? 2 : 1, &left, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (waiting[0].revents == 0) return false;
    std::uint64_t count = 0;
    [[maybe_unused]] const auto taken = ::read(event_fd_, &count, sizeof count);
    return true;
  }
}

}  // namespace waybill
