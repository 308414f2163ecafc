// What our HTTP server decides by itself, from a request's first lines: method, path, Host, Origin, Sec-Fetch-….
#include "fuzz/input.h"
#include "http/router.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace waybill;
  static const auto names = http::own_names("127.0.0.1", 8780);
  static const http::Router router = [] {
    http::Router made;
    const http::Handler nothing = [](const http::Request&) { return http::Response{}; };
    made.add("GET", "/", nothing);
    made.add("GET", "/stream/*", nothing);
    made.add("POST", "/stream/*", nothing);
    return made;
  }();
  fuzz::Input input(data, size);
  const std::string method = input.line();
  const std::string path = input.line();
  const auto found = router.find(method, path);
  fuzz::require(!found.handler || path == "/" || (path.starts_with("/stream/") && path == "/stream/" + found.tail));
  http::Fields headers{{"origin", input.line()}, {"sec-fetch-site", input.line()}};
  if (const std::string mode = input.line(); !mode.empty()) headers["sec-fetch-mode"] = mode;
  if (const std::string dest = input.line(); !dest.empty()) headers["sec-fetch-dest"] = dest;
  const bool own = !http::is_cross_site(headers, names);
  fuzz::require(!own || http::is_own_name(headers["origin"].substr(7), names));
  return 0;
}
