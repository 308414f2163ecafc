#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include <microhttpd.h>

#include "http/listener.h"
#include "http/router.h"
#include "http/server.h"
#include "http/wake_queue.h"

namespace waybill::http {

class Loop;

// One client's connection, and the request it is at.
struct Connection {
  Loop* loop = nullptr;
  std::uint64_t number = 0;
  MHD_Connection* handle = nullptr;
  int fd = -1;
  Steady deadline = Steady::max();  // Then a suspended one is asked again, any other is cut.
  bool suspended = false;
  bool gone = false;  // The client has hung up.

  bool begun = false;  // There is a request; the rest is about it.
  Request request{};
  std::optional<Response> refused{};
  const Handler* handler = nullptr;
  std::unique_ptr<Source> source{};
};

// The server's thread: it alone calls libmicrohttpd, handlers and sources, so none of them needs a lock.
// A connection whose source has nothing is taken out of the library's hands (suspended) and watched here,
// since the library does not see a suspended client hang up.
class Loop {
 public:
  // Takes the listener's socket over. Error(fix_config) if there are too few file descriptors.
  Loop(const ServerOptions& options, const Router& router, std::vector<std::string> names, Log log, Listener& listener);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Serves until `stop`.
  void run(const std::stop_token& stop);

  // Cuts every connection and destroys every source. The same thread's last call.
  void close();

  std::size_t streams() const { return streams_; }
  void interrupt() { wakes_->interrupt(); }

 private:
  // What the library calls.
  static MHD_Result on_request(void* loop, MHD_Connection* handle, const char* url, const char* method,
                               const char* version, const char* data, std::size_t* size, void** state);
  static void on_connection(void* loop, MHD_Connection* handle, void** context, MHD_ConnectionNotificationCode what);
  static void on_completed(void* loop, MHD_Connection* handle, void** state, MHD_RequestTerminationCode how);
  static ssize_t on_read(void* connection, std::uint64_t position, char* out, std::size_t size);

  void start(int listen_fd);
  MHD_Result proceed(Connection& connection, const char* url, const char* method, std::string_view data);
  MHD_Result begin(Connection& connection, const char* url, const char* method);
  std::optional<Response> refusal(Connection& connection);
  MHD_Result respond(Connection& connection);
  MHD_Result answer(Connection& connection);
  MHD_Result open(Connection& connection);
  MHD_Result send(Connection& connection, const Response& response);
  ssize_t pull(Connection& connection, std::span<char> out);
  void finish(Connection& connection);

  void suspend(Connection& connection, Steady again);
  void resume(Connection& connection);
  void expect_by(Connection& connection, Steady deadline);
  Steady next_turn() const;
  void notice_hang_ups();
  void resume_woken();
  void sweep();
  void cut(Connection& connection);
  void cut_oldest_idle();

  const ServerOptions options_;
  const Router& router_;
  const std::vector<std::string> names_;
  const Log log_;
  const std::shared_ptr<WakeQueue> wakes_ = std::make_shared<WakeQueue>();
  std::atomic<std::size_t> streams_ = 0;

  // The loop's thread's own.
  MHD_Daemon* daemon_ = nullptr;
  int epoll_fd_ = -1;  // The library's own descriptor and those of suspended connections.
  std::uint64_t connections_made_ = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  Steady next_deadline_ = Steady::max();
};

}  // namespace waybill::http
