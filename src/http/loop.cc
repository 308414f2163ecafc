#include "http/loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "waybill/error.h"

#include "base/assert.h"
#include "http/exchange.h"

namespace waybill::http {
namespace {

constexpr std::uint64_t library_mark = 0;  // Connections are numbered from 1.
constexpr std::size_t connection_memory_bytes = 32 * 1024;
// Beyond connections_max, for those that are being cut and not yet gone.
constexpr unsigned spare_connections = 32;
static_assert(connection_memory_bytes >= 2 * limits::header_bytes_max);

Steady now() {
  return std::chrono::steady_clock::now();
}

Connection& connection_of(MHD_Connection* handle) {
  auto* connection =
      static_cast<Connection*>(MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context);
  WAYBILL_ASSERT(connection != nullptr);
  return *connection;
}

bool watch(int epoll_fd, int fd, std::uint32_t events, std::uint64_t mark) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = mark;
  return ::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Loop::Loop(const ServerOptions& options, const Router& router, std::vector<std::string> names, Log log,
           Listener& listener)
    : options_(options),
      router_(router),
      names_(std::move(names)),
      log_(std::move(log)),
      epoll_fd_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_fd_ >= 0) start(listener.fd());
  if (daemon_ != nullptr) {
    listener.release();  // The library closes it.
    if (watch(epoll_fd_, MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, EPOLLIN, library_mark))
      return;
  }
  const int error = errno;
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  if (epoll_fd_ >= 0) ::close(epoll_fd_);
  throw Error(Remedy::fix_config,
              fmt::format("http: the server does not start: {}; raise the limit of open files", std::strerror(error)));
}

void Loop::start(int listen_fd) {
  daemon_ = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr, &on_request, this,
                             MHD_OPTION_LISTEN_SOCKET, listen_fd,                                        //
                             MHD_OPTION_CONNECTION_LIMIT, options_.connections_max + spare_connections,  //
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, connection_memory_bytes,                //
                             MHD_OPTION_CONNECTION_TIMEOUT, 0U,                                          //
                             MHD_OPTION_STRICT_FOR_CLIENT, 1,                                            //
                             MHD_OPTION_NOTIFY_CONNECTION, &on_connection, static_cast<void*>(this),     //
                             MHD_OPTION_NOTIFY_COMPLETED, &on_completed, static_cast<void*>(this),       //
                             MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,                                       //
                             MHD_OPTION_END);
}

Loop::~Loop() {
  WAYBILL_ASSERT(daemon_ == nullptr);
  ::close(epoll_fd_);
}

void Loop::close() {
  // The library refuses to end with suspended connections. Resumed now, they are closed without being asked.
  for (auto& [number, connection] : connections_)
    if (connection->suspended) resume(*connection);
  MHD_stop_daemon(std::exchange(daemon_, nullptr));
  WAYBILL_ASSERT(connections_.empty() && streams_ == 0);
}

void Loop::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    wakes_->wait(next_turn(), epoll_fd_);
    notice_hang_ups();
    resume_woken();
    if (now() >= next_deadline_) sweep();
    MHD_run(daemon_);
  }
}

Steady Loop::next_turn() const {
  MHD_UNSIGNED_LONG_LONG milliseconds = 0;
  if (MHD_get_timeout(daemon_, &milliseconds) != MHD_YES) return next_deadline_;
  return std::min(next_deadline_, now() + std::chrono::milliseconds(milliseconds));
}

void Loop::notice_hang_ups() {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const auto found = connections_.find(events[static_cast<std::size_t>(i)].data.u64);
    if (found == connections_.end()) continue;  // The library's own descriptor.
    found->second->gone = true;
    resume(*found->second);
  }
}

void Loop::resume_woken() {
  for (const auto number : wakes_->take()) {
    const auto found = connections_.find(number);
    if (found != connections_.end() && found->second->suspended) resume(*found->second);
  }
}

void Loop::sweep() {
  const auto moment = now();
  next_deadline_ = Steady::max();
  for (auto& [number, connection] : connections_) {
    if (connection->deadline <= moment) {
      if (connection->suspended) {
        resume(*connection);
      } else {
        cut(*connection);
      }
    }
    next_deadline_ = std::min(next_deadline_, connection->deadline);
  }
}

void Loop::expect_by(Connection& connection, Steady deadline) {
  connection.deadline = deadline;
  next_deadline_ = std::min(next_deadline_, deadline);
}

void Loop::suspend(Connection& connection, Steady again) {
  WAYBILL_ASSERT(!connection.suspended);
  connection.suspended = true;
  expect_by(connection, again);
  MHD_suspend_connection(connection.handle);
  // Not watched, a client that hangs up is noticed when there is something to send it.
  if (!watch(epoll_fd_, connection.fd, EPOLLRDHUP, connection.number))
    log_.warning("http: cannot watch a connection", {{"error", std::strerror(errno)}});
}

void Loop::resume(Connection& connection) {
  WAYBILL_ASSERT(connection.suspended);
  connection.suspended = false;
  expect_by(connection, now() + options_.stall_timeout);
  ::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, connection.fd, nullptr);
  MHD_resume_connection(connection.handle);
}

void Loop::on_connection(void* loop, MHD_Connection* handle, void** context, MHD_ConnectionNotificationCode what) {
  auto& self = *static_cast<Loop*>(loop);
  if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
    self.connections_.erase(connection_of(handle).number);
    return;
  }
  auto connection = std::make_unique<Connection>();
  connection->loop = &self;
  connection->number = ++self.connections_made_;
  connection->handle = handle;
  connection->fd = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  self.expect_by(*connection, now() + self.options_.request_timeout);
  *context = connection.get();
  if (self.connections_.size() >= self.options_.connections_max) self.cut_oldest_idle();
  self.connections_.emplace(connection->number, std::move(connection));
}

// Makes room for one more connection: closes the one that has waited longest for a complete request.
void Loop::cut_oldest_idle() {
  Connection* oldest = nullptr;
  for (auto& [number, connection] : connections_)
    if (!connection->begun && connection->deadline != Steady::max() && (!oldest || number < oldest->number))
      oldest = connection.get();
  if (oldest) cut(*oldest);
}

void Loop::cut(Connection& connection) {
  ::shutdown(connection.fd, SHUT_RDWR);  // The library notices, and closes it.
  connection.deadline = Steady::max();
}

void Loop::on_completed(void* loop, MHD_Connection* handle, void**, MHD_RequestTerminationCode) {
  static_cast<Loop*>(loop)->finish(connection_of(handle));
}

void Loop::finish(Connection& connection) {
  if (connection.source) --streams_;
  connection.source.reset();
  connection.handler = nullptr;
  connection.request = {};
  connection.refused.reset();
  connection.begun = false;
  expect_by(connection, now() + options_.request_timeout);
}

MHD_Result Loop::on_request(void* loop, MHD_Connection* handle, const char* url, const char* method, const char*,
                            const char* data, std::size_t* size, void**) {
  auto& self = *static_cast<Loop*>(loop);
  const auto bytes = std::exchange(*size, 0);
  return self.proceed(connection_of(handle), url, method, {data, bytes});
}

// Called once when the headers are there, for each part of the body, and then until there is an answer.
MHD_Result Loop::proceed(Connection& connection, const char* url, const char* method, std::string_view data) {
  if (!connection.begun) return begin(connection, url, method);
  if (data.empty()) return respond(connection);
  if (connection.request.body.size() + data.size() > limits::body_bytes_max) return MHD_NO;
  connection.request.body += data;
  return MHD_YES;
}

MHD_Result Loop::begin(Connection& connection, const char* url, const char* method) {
  connection.begun = true;
  connection.request = read_request(connection.handle, method, url);
  connection.request.wake = Wake(wakes_, connection.number);
  connection.refused = refusal(connection);
  // An answer before the body was read costs the connection: given only to those who would send one.
  const auto& headers = connection.request.headers;
  const bool body_follows = headers.contains("content-length") || headers.contains("transfer-encoding");
  return connection.refused && body_follows ? send(connection, *connection.refused) : MHD_YES;
}

// Why the request is not to be read any further. What it asks for comes last: a stranger learns nothing of
// it.
std::optional<Response> Loop::refusal(Connection& connection) {
  auto& request = connection.request;
  const auto host = find(request.headers, "host");
  if (!host || !is_own_name(*host, names_))
    return Response{.status = 421, .body = "This server goes by other names; use its loopback address.\n"};
  if (is_cross_site(request.headers, names_))
    return Response{.status = 403, .body = "Pages of other origins are not served.\n"};
  if (auto over = over_limits(connection.handle, request)) return over;
  auto found = router_.find(request.method, request.path);
  if (found.allow.empty()) return Response{.status = 404, .body = "There is nothing here.\n"};
  if (found.handler == nullptr)
    return Response{.status = 405, .body = "Not with this method.\n", .headers = {{"Allow", found.allow}}};
  connection.handler = found.handler;
  request.tail = std::move(found.tail);
  return std::nullopt;
}

MHD_Result Loop::respond(Connection& connection) {
  if (connection.refused) return send(connection, *connection.refused);
  try {
    return connection.source ? open(connection) : answer(connection);
  } catch (const std::exception& e) {
    log_.error("http: a request failed", {{"path", connection.request.path}, {"error", e.what()}});
    return send(connection, {.status = 500, .body = "This went wrong here; the log says why.\n"});
  }
}

MHD_Result Loop::answer(Connection& connection) {
  auto made = (*connection.handler)(connection.request);
  if (const auto* response = std::get_if<Response>(&made)) return send(connection, *response);
  if (streams_ >= options_.streams_max)
    return send(connection, {.status = 503, .body = "Too many streams.\n", .headers = {{"Retry-After", "5"}}});
  connection.source = std::move(std::get<std::unique_ptr<Source>>(made));
  WAYBILL_ASSERT(connection.source != nullptr);
  ++streams_;
  return open(connection);
}

MHD_Result Loop::open(Connection& connection) {
  if (connection.gone) return MHD_NO;
  const auto head = connection.source->open();
  if (!head) {
    suspend(connection, Steady::max());
    return MHD_YES;
  }
  // To HEAD, too: the library would end the body that it has not sent.
  if (head->status != 200 || connection.request.method == "HEAD") return send(connection, *head);
  expect_by(connection, now() + options_.stall_timeout);
  MHD_Response* response = streamed_answer(*head, &on_read, &connection);
  const auto queued = MHD_queue_response(connection.handle, MHD_HTTP_OK, response);
  MHD_destroy_response(response);
  return queued;
}

MHD_Result Loop::send(Connection& connection, const Response& response) {
  expect_by(connection, now() + options_.request_timeout);
  MHD_Response* whole = whole_answer(response);
  const auto queued = MHD_queue_response(connection.handle, static_cast<unsigned>(response.status), whole);
  MHD_destroy_response(whole);
  return queued;
}

ssize_t Loop::on_read(void* connection, std::uint64_t, char* out, std::size_t size) {
  auto& self = *static_cast<Connection*>(connection);
  return self.loop->pull(self, {out, size});
}

ssize_t Loop::pull(Connection& connection, std::span<char> out) {
  if (connection.gone) return MHD_CONTENT_READER_END_WITH_ERROR;
  Pull pulled;
  try {
    pulled = connection.source->pull(out);
  } catch (const std::exception& e) {
    log_.error("http: a stream failed", {{"path", connection.request.path}, {"error", e.what()}});
    return MHD_CONTENT_READER_END_WITH_ERROR;
  }
  WAYBILL_ASSERT(pulled.bytes <= out.size());
  if (pulled.end) return MHD_CONTENT_READER_END_OF_STREAM;
  if (pulled.bytes == 0) {
    suspend(connection, pulled.again);
  } else {
    expect_by(connection, now() + options_.stall_timeout);
  }
  return static_cast<ssize_t>(pulled.bytes);
}

}  // namespace waybill::http
