#include "http/server.h"

#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "http/listener.h"
#include "http/loop.h"
#include "http/router.h"

namespace waybill::http {

class Server::Impl {
 public:
  Impl(ServerOptions options, Log log)
      : options_(std::move(options)), log_(std::move(log)), listener_(options_.address, options_.port) {}
  ~Impl() { stop(); }

  void route(std::string method, std::string pattern, Handler handler) {
    WAYBILL_ASSERT(!started_);
    router_.add(std::move(method), std::move(pattern), std::move(handler));
  }

  void start() {
    WAYBILL_ASSERT(!started_);
    started_ = true;
    loop_.emplace(options_, router_, own_names(listener_.address(), listener_.port()), log_, listener_);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      // Signals are for the threads of the application; a client that is gone must not end the process.
      sigset_t every;
      ::sigfillset(&every);
      ::pthread_sigmask(SIG_BLOCK, &every, nullptr);
      loop_->run(stop);
      loop_->close();
    });
  }

  void stop() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    loop_->interrupt();
    thread_.join();
  }

  std::uint16_t port() const { return listener_.port(); }
  std::string url() const {
    const bool v6 = listener_.address().find(':') != std::string::npos;
    return fmt::format("http://{}{}{}:{}/", v6 ? "[" : "", listener_.address(), v6 ? "]" : "", port());
  }
  std::size_t streams() const { return loop_ ? loop_->streams() : 0; }

 private:
  const ServerOptions options_;
  const Log log_;
  Router router_;
  Listener listener_;
  bool started_ = false;
  std::optional<Loop> loop_;
  std::jthread thread_;
};

Server::Server(ServerOptions options, Log log) : impl_(std::make_unique<Impl>(std::move(options), std::move(log))) {}
Server::~Server() = default;

void Server::route(std::string method, std::string pattern, Handler handler) {
  impl_->route(std::move(method), std::move(pattern), std::move(handler));
}

void Server::start() {
  impl_->start();
}

void Server::stop() {
  impl_->stop();
}

std::uint16_t Server::port() const {
  return impl_->port();
}

std::string Server::url() const {
  return impl_->url();
}

std::size_t Server::streams() const {
  return impl_->streams();
}

}  // namespace waybill::http
