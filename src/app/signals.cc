#include "app/signals.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "waybill/error.h"

#include "app/terminal.h"
#include "base/assert.h"

namespace waybill::app {
namespace {

int block_and_open(bool hangup) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  if (hangup) sigaddset(&set, SIGHUP);
  WAYBILL_ASSERT(::pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // A file at its largest size is an outage, as a full disk is.
  const int fd = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0)
    throw Error(Remedy::fix_config,
                fmt::format("cannot wait for signals: {}; raise the limit of open files", std::strerror(errno)));
  return fd;
}

}  // namespace

Signals::Signals(std::function<void()> on_hangup)
    : on_hangup_(std::move(on_hangup)), fd_(block_and_open(on_hangup_ != nullptr)), thread_([this] { listen(); }) {}

Signals::~Signals() {
  over_ = true;
  waker_.wake();
  thread_.join();
  ::close(fd_);
}

void Signals::listen() {
  while (!over_) {
    waker_.wait(std::chrono::steady_clock::now() + std::chrono::hours(1), fd_);
    signalfd_siginfo info{};
    if (::read(fd_, &info, sizeof info) != sizeof info) continue;
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGHUP) {
      on_hangup_();
      continue;
    }
    if (received_.exchange(signal) != 0) ::_exit(128 + signal);
    say("stopping; the same signal again ends it at once");
    stop_.request_stop();
  }
}

}  // namespace waybill::app
