#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace waybill::config {

inline constexpr std::string_view redacted = "********";

// The URL with what follows "user:" and "password=" replaced; other text as it is.
std::string redact_url(std::string_view url);

// The password that the URL carries, percent-encoded as it stands there; empty if none.
std::string_view url_password(std::string_view url);

using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

// The text with each ${env:NAME} replaced by that variable. Throws Error(fix_config) if one is not set, or if
// the reference is malformed.
std::string expand(std::string_view text, const Lookup& environment);

// Does expand() change it?
bool has_reference(std::string_view text);

}  // namespace waybill::config
