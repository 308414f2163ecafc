#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace waybill::net {

struct Host {
  std::string name{};  // Or an address.
  std::uint16_t port = 0;

  // "host:4222", "[::1]:4222"
  std::string text() const;
};

// Does every connection to these hosts stay on this machine?
bool all_on_loopback(const std::vector<Host>& hosts);

struct TlsOptions {
  bool on = false;
  std::string ca{};           // A file of certificates to trust; empty: the system's.
  std::string certificate{};  // Our own, with its key; empty: none.
  std::string key{};
  std::string server_name{};  // What the other side's certificate must be made out to; empty: the host's name.
};

}  // namespace waybill::net
