#include "net/host.h"

#include <fmt/format.h>

namespace waybill::net {

std::string Host::text() const {
  return name.find(':') == std::string::npos ? fmt::format("{}:{}", name, port) : fmt::format("[{}]:{}", name, port);
}

}  // namespace waybill::net
