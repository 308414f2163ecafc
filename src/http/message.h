#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "waybill/time.h"

// What goes in and out of the HTTP server (http/server.h).
namespace waybill::http {

class WakeQueue;

// Header names are in lower case; a header that came twice has its values joined by ", ". Of a query argument
// that came twice, the first counts.
using Fields = std::map<std::string, std::string, std::less<>>;

// The value under `name`, or nothing.
std::optional<std::string_view> find(const Fields& fields, std::string_view name);

// Tells the server that a source which had nothing yet should be asked again. May be called from any thread,
// at any time, also for nothing, also when the client or the server is gone. Copies do the same.
class Wake {
 public:
  Wake() = default;
  Wake(std::shared_ptr<WakeQueue> queue, std::uint64_t connection);
  void operator()() const;

 private:
  std::shared_ptr<WakeQueue> queue_;
  std::uint64_t connection_ = 0;
};

struct Request {
  std::string method{};
  std::string path{};  // Decoded, without the query.
  std::string tail{};  // What the route's "*" stands for.
  Fields query{};
  Fields headers{};
  std::string body{};
  Wake wake{};  // For the source that the handler returns, if it does.
};

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body{};
  Fields headers{};  // Beside those that every answer has.
};

// What a source has brought.
struct Pull {
  std::size_t bytes = 0;         // 0 and no end: nothing yet. Ask again when woken,
  Steady again = Steady::max();  // at the latest then.
  bool end = false;              // Nothing more follows; bytes is 0.
};

// An answer that comes bit by bit. Used on the server's thread alone, which it must not keep waiting: it says
// "nothing yet" instead, and has its request's Wake called when that changes. It is asked for more only when
// the client has taken what was brought before: a slow client costs one buffer and nobody's time. Destroyed
// when it has ended, when the client is gone, or when the server stops.
class Source {
 public:
  virtual ~Source() = default;

  // Asked first, and until it answers. Nothing: not known yet. Status 200: the head of the answer, its body
  // comes from pull(). Any other status: the whole answer.
  virtual std::optional<Response> open() = 0;

  // Writes into `out`, from its beginning.
  virtual Pull pull(std::span<char> out) = 0;
};

using Answer = std::variant<Response, std::unique_ptr<Source>>;

// Called on the server's thread: while it works, nobody else is served. What it throws becomes a 500 whose
// text tells nothing; the log does.
using Handler = std::function<Answer(const Request&)>;

}  // namespace waybill::http
