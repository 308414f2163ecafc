#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace waybill::config {

inline constexpr std::string_view redacted = "********";

// The parts of a text that are secrets, from front to back (they may overlap): the password of each URL, and the values
// of parameters whose names say so ("password=", also percent-encoded), in a URL, in libpq's form (host=db password=…)
// or alone. In doubt a part is too large rather than too small.
std::vector<std::string_view> secret_parts(std::string_view text);

// The text with its secret parts replaced.
std::string redact_url(std::string_view text);

// The same for a server's address, which may do without a scheme: "user:password@host".
std::string redact_address(std::string_view text);

// The password that the URL carries, percent-encoded as it stands there; empty if none.
std::string_view url_password(std::string_view url);

using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

// The text with each ${env:NAME} replaced by that variable. Throws Error(fix_config) if one is not set, or if
// the reference is malformed.
std::string expand(std::string_view text, const Lookup& environment);

// Does expand() change it?
bool has_reference(std::string_view text);

}  // namespace waybill::config
