#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace waybill::http {

// Finds the handler for a method and a path. Not thread-safe while routes are added.
class Router {
 public:
  // `pattern` is a path ("/status.json"), or one whose last segment is "*" ("/stream/*"): any one segment.
  // REQUIRES: starts with '/'; no route with this method and pattern yet.
  void add(std::string method, std::string pattern, Handler handler);

  struct Found {
    const Handler* handler = nullptr;  // None: 404, or, if others are allowed, 405.
    std::string tail{};
    std::string allow{};  // "GET, HEAD": what the path allows; empty: there is no such path.
  };
  // HEAD is answered by GET's handler.
  Found find(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method{};
    std::string pattern{};
    Handler handler{};
  };
  std::vector<Route> routes_;
};

// The names under which a browser may know a server on this loopback address and port. Whoever comes with
// another one in its `Host` header was led here by somebody else's DNS.
std::vector<std::string> own_names(std::string_view address, int port);

// Does a browser say that a page of another origin asks? A link that a person follows (a navigation of the whole
// window) is none of that: the page it was on does not get to see the answer.
bool is_cross_site(const Fields& headers, const std::vector<std::string>& names);

// Is `host` one of `names`? Case does not count.
bool is_own_name(std::string_view host, const std::vector<std::string>& names);

}  // namespace waybill::http
