#include "broker/rabbitmq/url.h"

#include <charconv>

#include <fmt/format.h>

#include "waybill/error.h"

namespace waybill::rabbitmq {
namespace {

constexpr std::uint16_t plain_port = 5672;
constexpr std::uint16_t tls_port = 5671;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Remedy::fix_config, why);
}

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned code = 0;
    const char* const end = text.data() + std::min(i + 3, text.size());
    const auto parsed = std::from_chars(text.data() + i + 1, end, code, 16);
    if (parsed.ptr != text.data() + i + 3 || code == 0)
      refuse("has a '%' that no two hexadecimal digits follow; write a percent sign as %25");
    out += static_cast<char>(code);
    i += 2;
  }
  return out;
}

net::Host parse_host(std::string_view text, std::uint16_t port) {
  net::Host host{.port = port};
  auto colon = text.rfind(':');
  if (text.starts_with('[')) {  // An address of IPv6, as in "[::1]:5672".
    const auto end = text.find(']');
    if (end == std::string_view::npos) refuse("has a '[' without a ']'");
    host.name = std::string(text.substr(1, end - 1));
    colon = end + 1 < text.size() && text[end + 1] == ':' ? end + 1 : std::string_view::npos;
    if (colon == std::string_view::npos && end + 1 != text.size()) refuse("has something other than a port after ']'");
  } else {
    host.name = decoded(text.substr(0, colon));
  }
  if (host.name.empty()) refuse(R"(names no host; write "amqp://user@host/vhost")");
  if (colon == std::string_view::npos) return host;
  const auto digits = text.substr(colon + 1);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), host.port);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || host.port == 0)
    refuse("has a port that is none; a port is 1 to 65535");
  return host;
}

}  // namespace

BrokerUrl parse_url(std::string_view url) {
  BrokerUrl parsed;
  if (url.starts_with("amqps://")) {
    parsed.tls = true;
  } else if (!url.starts_with("amqp://")) {
    refuse(R"(must begin with "amqp://", or with "amqps://" for TLS)");
  }
  std::string_view rest = url.substr(url.find("//") + 2);
  if (rest.find_first_of("?#") != std::string_view::npos)
    refuse("takes no parameters after '?'; they are keys of their own here");
  if (const auto at = rest.rfind('@'); at != std::string_view::npos) {
    const auto login = rest.substr(0, at);
    const auto colon = login.find(':');
    parsed.user = decoded(login.substr(0, colon));
    if (colon != std::string_view::npos) parsed.password = decoded(login.substr(colon + 1));
    rest.remove_prefix(at + 1);
  }
  const auto slash = rest.find('/');
  if (slash != std::string_view::npos && slash + 1 < rest.size()) {
    if (rest.find('/', slash + 1) != std::string_view::npos)
      refuse("has a '/' in the name of the vhost; write it as %2F");
    parsed.vhost = decoded(rest.substr(slash + 1));
  }
  std::string_view hosts = rest.substr(0, slash);
  const std::uint16_t port = parsed.tls ? tls_port : plain_port;
  while (true) {
    const auto comma = hosts.find(',');
    parsed.hosts.push_back(parse_host(hosts.substr(0, comma), port));
    if (comma == std::string_view::npos) return parsed;
    hosts.remove_prefix(comma + 1);
  }
}

}  // namespace waybill::rabbitmq
