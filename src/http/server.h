#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "waybill/log.h"

#include "http/message.h"

namespace waybill::http {

// What a client may send. More than that is answered with 413 (body) or 431 (headers).
namespace limits {
inline constexpr std::size_t body_bytes_max = 1024 * 1024;
inline constexpr std::size_t header_bytes_max = 16 * 1024;
inline constexpr std::size_t headers_max = 100;
}  // namespace limits

struct ServerOptions {
  // Loopback only: nothing served here asks who is there. The remote console comes with its own door.
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free one.

  // One more, and the connection is cut that has been without a whole request for the longest time: those that do
  // nothing keep nobody out. If there is none, clients wait in the system's queue.
  unsigned connections_max = 512;
  // Streams beyond it are answered with 503, so that plain requests always find a connection.
  unsigned streams_max = 448;
  // From the connection, or from the answer before, until a request is there in full; and again for its
  // answer to be taken.
  std::chrono::milliseconds request_timeout{10'000};
  // How long the client of a stream may take nothing of what was sent.
  std::chrono::milliseconds stall_timeout{60'000};
};

// A Server answers HTTP/1.1 requests, plain and streamed, on one thread of its own (epoll).
// For every request, whatever its path, it holds the `Host` header to the names a loopback server can have,
// with its port: any other is answered with 421, since then some page had its own name resolve to this
// machine (DNS rebinding). A request that a browser makes for a page of another origin (`Origin`, `Sec-Fetch-Site`) is
// answered with 403. Every answer has the headers that keep a browser from running, framing, storing or
// guessing at what it was sent. Exceptions are requests so broken that they never become one, which the
// library under it answers by itself: malformed, or with headers over 32 KiB. HEAD is answered wherever GET
// is. A request body must state its length (else 411). The methods are one thread's affair, except port(),
// url() and streams(), which are anybody's.
class Server {
 public:
  // Binds at once, so that port() is known. Error(fix_config) if it cannot or may not.
  explicit Server(ServerOptions options, Log log = {});
  ~Server();  // Stops.
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // `pattern` as in http/router.h. What handlers refer to must outlive stop(). REQUIRES: not started.
  void route(std::string method, std::string pattern, Handler handler);

  void start();

  // Cuts every connection, destroys every source, and returns when all is done. May come first or twice.
  void stop();

  std::uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8080/"

  // How many streams are open.
  std::size_t streams() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace waybill::http
