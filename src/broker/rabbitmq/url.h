#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/host.h"

namespace waybill::rabbitmq {

// "amqps://user:password@host-1:5671,host-2/vhost", each part percent-decoded.
struct BrokerUrl {
  bool tls = false;
  std::string user{};
  std::string password{};
  std::vector<net::Host> hosts{};
  std::string vhost = "/";
};

// Throws Error(fix_config): what is wrong with it; reads on after the name of the key.
BrokerUrl parse_url(std::string_view url);

}  // namespace waybill::rabbitmq
