#include "http/router.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"

namespace waybill::http {
namespace {

// What "*" stands for if `path` matches `pattern`: empty if it has none.
std::optional<std::string_view> tail_of(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with("/*")) return pattern == path ? std::optional("") : std::nullopt;
  const auto stem = pattern.substr(0, pattern.size() - 1);
  if (!path.starts_with(stem)) return std::nullopt;
  const auto tail = path.substr(stem.size());
  return tail.empty() || tail.find('/') != std::string_view::npos ? std::nullopt : std::optional(tail);
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

void append_method(std::string& list, std::string_view method) {
  if (!list.empty()) list += ", ";
  list += method;
}

}  // namespace

void Router::add(std::string method, std::string pattern, Handler handler) {
  WAYBILL_ASSERT(pattern.starts_with('/') && handler);
  WAYBILL_ASSERT(std::none_of(routes_.begin(), routes_.end(),
                              [&](const Route& route) { return route.method == method && route.pattern == pattern; }));
  routes_.push_back({.method = std::move(method), .pattern = std::move(pattern), .handler = std::move(handler)});
}

Router::Found Router::find(std::string_view method, std::string_view path) const {
  const auto wanted = method == "HEAD" ? "GET" : method;
  Found found;
  for (const auto& route : routes_) {
    const auto tail = tail_of(route.pattern, path);
    if (!tail) continue;
    append_method(found.allow, route.method);
    if (route.method == "GET") append_method(found.allow, "HEAD");
    if (route.method != wanted || found.handler != nullptr) continue;
    found.handler = &route.handler;
    found.tail = *tail;
  }
  return found;
}

std::vector<std::string> own_names(std::string_view address, int port) {
  const bool v6 = address.find(':') != std::string_view::npos;
  std::vector<std::string> names;
  for (const auto& name : std::array<std::string, 4>{"localhost", "127.0.0.1", "[::1]",
                                                     v6 ? fmt::format("[{}]", address) : std::string(address)}) {
    names.push_back(fmt::format("{}:{}", name, port));
    if (port == 80) names.push_back(name);  // Browsers leave the default port out.
  }
  return names;
}

bool is_cross_site(const Fields& headers, const std::vector<std::string>& names) {
  constexpr std::string_view scheme = "http://";
  if (const auto origin = find(headers, "origin"))
    if (!origin->starts_with(scheme) || !is_own_name(origin->substr(scheme.size()), names)) return true;
  const auto site = find(headers, "sec-fetch-site").value_or("none");
  if (site == "none" || site == "same-origin") return false;
  return find(headers, "sec-fetch-mode") != "navigate" || find(headers, "sec-fetch-dest") != "document";
}

bool is_own_name(std::string_view host, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return std::equal(host.begin(), host.end(), name.begin(), name.end(),
                      [](char a, char b) { return lower(a) == lower(b); });
  });
}

}  // namespace waybill::http
