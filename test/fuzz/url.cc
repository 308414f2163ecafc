// Addresses of brokers, and how they are shown.
#include "broker/rabbitmq/url.h"

#include "broker/nats/address.h"
#include "config/secret.h"
#include "fuzz/input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace waybill;
  const std::string url(fuzz::Input(data, size).rest());
  fuzz::accepts([&] {
    for (const auto& host : rabbitmq::parse_url(url).hosts) fuzz::require(!host.name.empty() && host.port != 0);
  });
  if (const auto address = parse_nats_address(url)) fuzz::require(!address->server.name.empty());
  config::redact_url(url);
  return 0;
}
