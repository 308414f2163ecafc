#pragma once

// What the examples that serve have in common: they end on a signal, give each request a connection, and do something
// else beside it.

#include <csignal>
#include <functional>
#include <future>
#include <iostream>
#include <stop_token>
#include <string>
#include <thread>

#include "waybill/database.h"

#include "http.h"

namespace service {

// Requested by SIGTERM or SIGINT. Before other threads begin: they inherit that signals are not for them.
inline std::stop_source stop_on_signals() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::stop_source stop;
  std::thread([ends, stop]() mutable {
    int number = 0;
    sigwait(&ends, &number);
    stop.request_stop();
  }).detach();
  return stop;
}

// For main(): its exit code. What `doing` throws is said, and is 1.
inline int run(const std::function<void(std::stop_source)>& doing) {
  try {
    doing(stop_on_signals());
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

// `here`, and `beside` in a thread of its own. When one of them ends, in whatever way, the other is stopped; what
// either has thrown is thrown when both have ended.
inline void together(std::stop_source stop, const std::function<void()>& here, const std::function<void()>& beside) {
  struct Stops {
    std::stop_source& stop;
    ~Stops() { stop.request_stop(); }
  };
  std::future<void> other = std::async(std::launch::async, [&] {
    const Stops at_the_end{stop};
    beside();
  });
  {
    const Stops at_the_end{stop};
    here();
  }
  other.get();
}

using Answer = std::function<http::Response(waybill::Connection&, const http::Request&)>;

// Serves until `stop`. Each request has a connection of its own; a service has a pool of them.
inline void serve(const std::string& url, const std::string& port, const std::stop_token& stop, const Answer& answer) {
  http::serve(static_cast<std::uint16_t>(std::stoi(port)), stop, [&](const http::Request& request) -> http::Response {
    try {
      return answer(*waybill::connect(url), request);
    } catch (const waybill::Error& error) {
      std::cerr << error.what() << '\n';
      if (error.remedy() == waybill::Remedy::fix_input)
        return {.status = 400, .content_type = "text/plain", .body = std::string(error.what()) + "\n"};
      return {.status = 503, .content_type = "text/plain", .body = "it did not work; ask the same again\n"};
    }
  });
}

}  // namespace service
