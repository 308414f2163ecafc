#include "net/host.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/loopback.h"

namespace waybill::net {

std::string Host::text() const {
  return name.find(':') == std::string::npos ? fmt::format("{}:{}", name, port) : fmt::format("[{}]:{}", name, port);
}

bool all_on_loopback(const std::vector<Host>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [](const Host& host) { return is_loopback(host.name); });
}

}  // namespace waybill::net
