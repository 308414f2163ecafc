#include "store/postgres/encryption.h"

#include <fmt/format.h>

#include "base/loopback.h"

namespace waybill {

std::optional<Finding> examine_encryption(const PgEncryption& encryption) {
  if (encryption.address.empty() || is_loopback(encryption.address) || encryption.sslmode == "verify-full")
    return std::nullopt;
  return Finding{Finding::Level::warning, "sslmode",
                 fmt::format("it is '{}': the connection to '{}' is {}", encryption.sslmode, encryption.host,
                             encryption.encrypted ? "encrypted, but it is not checked that this server is meant"
                                                  : "not encrypted; passwords and events can be read on the way"),
                 "set sslmode=verify-full in the URL, and sslrootcert to the authority's certificate"};
}

}  // namespace waybill
