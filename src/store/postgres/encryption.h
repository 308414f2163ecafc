#pragma once

#include <optional>
#include <string>

#include "waybill/store.h"

namespace waybill {

// How a connection to a server was made.
struct PgEncryption {
  std::string host{};     // As the URL has it.
  std::string address{};  // Where it led; empty: a socket of this machine.
  std::string sslmode{};
  bool encrypted = false;  // By TLS or GSSAPI.
};

// A warning if the connection leaves this machine and the server's certificate is not verified against its name.
std::optional<Finding> examine_encryption(const PgEncryption& encryption);

}  // namespace waybill
