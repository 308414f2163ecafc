#include "config/secret.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "waybill/error.h"

namespace waybill::config {
namespace {

constexpr std::string_view reference_start = "${env:";

// The authority of a URL: between "://" and the next '/', '?' or '#'.
std::string_view authority(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme == std::string_view::npos) return {};
  const auto rest = url.substr(scheme + 3);
  // A password may hold a '/' that should have been encoded: better to hide too much than too little.
  const auto at = rest.rfind('@');
  const auto end = rest.find_first_of("/?#", at == std::string_view::npos ? 0 : at);
  return rest.substr(0, end);
}

// The value of a query parameter that is a secret, from `from` on.
std::string_view next_query_secret(std::string_view url, std::size_t from) {
  constexpr std::array names{std::string_view("password="), std::string_view("sslpassword=")};
  for (auto at = url.find_first_of("?&", from); at != std::string_view::npos; at = url.find_first_of("?&", at + 1)) {
    for (const auto name : names) {
      if (!url.substr(at + 1).starts_with(name)) continue;
      const auto value = url.substr(at + 1 + name.size());
      return value.substr(0, value.find_first_of("&#"));
    }
  }
  return {};
}

std::string_view authority_password(std::string_view url) {
  const auto whole = authority(url);
  const auto at = whole.rfind('@');
  const auto colon = whole.find(':');
  if (at == std::string_view::npos || colon == std::string_view::npos || colon > whole.find('@')) return {};
  return whole.substr(colon + 1, at - colon - 1);
}

// The parts may overlap, and stand in any order.
std::string redact(std::string_view text, std::vector<std::string_view> parts) {
  std::sort(parts.begin(), parts.end(), [](auto a, auto b) { return a.data() < b.data(); });
  std::string out;
  std::size_t done = 0;
  for (const auto part : parts) {
    const auto begin = static_cast<std::size_t>(part.data() - text.data());
    if (begin >= done) out.append(text.substr(done, begin - done)).append(redacted);
    done = std::max(done, begin + part.size());
  }
  return out.append(text.substr(done));
}

}  // namespace

std::string_view url_password(std::string_view url) {
  const auto password = authority_password(url);
  return password.empty() ? next_query_secret(url, 0) : password;
}

std::string redact_url(std::string_view url) {
  std::vector<std::string_view> parts;
  if (const auto password = authority_password(url); !password.empty()) parts.push_back(password);
  for (std::size_t from = 0;;) {
    const auto part = next_query_secret(url, from);
    if (part.data() == nullptr) break;
    if (!part.empty()) parts.push_back(part);
    from = static_cast<std::size_t>(part.data() - url.data());
  }
  return redact(url, std::move(parts));
}

bool has_reference(std::string_view text) {
  return text.find(reference_start) != std::string_view::npos;
}

std::string expand(std::string_view text, const Lookup& environment) {
  std::string out;
  while (true) {
    const auto start = text.find(reference_start);
    out += text.substr(0, start);
    if (start == std::string_view::npos) return out;
    text.remove_prefix(start + reference_start.size());
    const auto end = text.find('}');
    if (end == std::string_view::npos || end == 0) throw Error(Remedy::fix_config, "a reference must read ${env:NAME}");
    const std::string name(text.substr(0, end));
    const auto value = environment(name);
    if (!value) throw Error(Remedy::fix_config, fmt::format("environment variable '{}' is not set", name));
    out += *value;
    text.remove_prefix(end + 1);
  }
}

}  // namespace waybill::config
