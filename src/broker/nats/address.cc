#include "broker/nats/address.h"

#include <charconv>

namespace waybill {

std::optional<NatsAddress> parse_nats_address(std::string_view text) {
  NatsAddress address;
  if (text.starts_with("tls://")) {
    address.tls = true;
    text.remove_prefix(6);
  } else if (text.starts_with("nats://")) {
    text.remove_prefix(7);
  }
  while (text.ends_with('/')) text.remove_suffix(1);
  std::string_view host = text;
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (host.empty() || host.find_first_of("@/?# \t,") != std::string_view::npos) return std::nullopt;
  address.server.name = host;
  if (port.empty()) return address;
  if (port.front() != ':') return std::nullopt;
  const auto [end, error] = std::from_chars(port.data() + 1, port.data() + port.size(), address.server.port);
  if (error != std::errc() || end != port.data() + port.size() || address.server.port == 0) return std::nullopt;
  return address;
}

}  // namespace waybill
