#include "config/secret.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "waybill/error.h"

namespace waybill::config {
namespace {

constexpr std::string_view reference_start = "${env:";

// The authority of a URL: between "://" and the next '/', '?' or '#'.
std::string_view authority(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme == std::string_view::npos) return {};
  const auto rest = url.substr(scheme + 3);
  // A password may hold a '/' that should have been encoded: better to hide too much than too little.
  const auto at = rest.rfind('@');
  const auto end = rest.find_first_of("/?#", at == std::string_view::npos ? 0 : at);
  return rest.substr(0, end);
}

std::string decoded_name(std::string_view text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = static_cast<unsigned char>(text[i]);
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, code, 16).ptr == text.data() + i + 3)
      i += 2;
    name += static_cast<char>(std::tolower(static_cast<int>(code & 0xFFU)));
  }
  return name;
}

// Is the value of a parameter, or of a key of the configuration, a secret? KEY_file and passfile hold paths.
bool names_a_secret(std::string_view encoded) {
  const std::string name = decoded_name(encoded);
  if (name.ends_with("file")) return false;
  constexpr std::array signs{
      std::string_view("password"),         std::string_view("passwd"), std::string_view("passphrase"),
      std::string_view("secret"),           std::string_view("token"),  std::string_view("scram_client_key"),
      std::string_view("scram_server_key"), std::string_view("pwd")};
  return std::any_of(signs.begin(), signs.end(), [&](auto sign) { return name.find(sign) != std::string::npos; });
}

// Values of parameters. In a URL one ends at the next '&'; elsewhere it has what follows, however that is quoted.
void add_parameters(std::string_view text, std::vector<std::string_view>& parts) {
  const bool is_url = text.find("://") != std::string_view::npos;
  for (auto equals = text.find('='); equals != std::string_view::npos; equals = text.find('=', equals + 1)) {
    const auto name_end = text.find_last_not_of(" \t\n", equals == 0 ? 0 : equals - 1);
    if (equals == 0 || name_end == std::string_view::npos) continue;
    const auto before = text.find_last_of("?&;, \t\n'\"", name_end);
    const auto begin = before == std::string_view::npos ? 0 : before + 1;
    if (!names_a_secret(text.substr(begin, name_end + 1 - begin))) continue;
    const auto value = text.substr(equals + 1);
    parts.push_back(is_url ? value.substr(0, value.find('&')) : value);
    equals += parts.back().size();
  }
}

std::string_view password_before_host(std::string_view whole) {
  const auto at = whole.rfind('@');
  const auto colon = whole.find(':');
  if (at == std::string_view::npos || colon == std::string_view::npos || colon > whole.find('@')) return {};
  return whole.substr(colon + 1, at - colon - 1);
}

// The parts may overlap.
std::string redact(std::string_view text, const std::vector<std::string_view>& parts) {
  std::string out;
  std::size_t done = 0;
  for (const auto part : parts) {
    const auto begin = static_cast<std::size_t>(part.data() - text.data());
    if (begin >= done) {  // Otherwise the last part has its beginning already.
      out += text.substr(done, begin - done);
      out += redacted;
    }
    done = std::max(done, begin + part.size());
  }
  return out + std::string(text.substr(done));
}

}  // namespace

std::vector<std::string_view> secret_parts(std::string_view text) {
  std::vector<std::string_view> parts{password_before_host(authority(text))};
  add_parameters(text, parts);
  std::erase_if(parts, [](std::string_view part) { return part.empty(); });
  std::sort(parts.begin(), parts.end(), [](auto a, auto b) { return a.data() < b.data(); });
  return parts;
}

std::string_view url_password(std::string_view url) {
  const auto parts = secret_parts(url);
  return parts.empty() ? std::string_view() : parts.front();
}

std::string redact_url(std::string_view text) {
  return redact(text, secret_parts(text));
}

std::string redact_address(std::string_view text) {
  if (text.find("://") != std::string_view::npos) return redact_url(text);
  const auto password = password_before_host(text);
  return password.empty() ? redact_url(text) : redact(text, {password});
}

bool has_reference(std::string_view text) {
  return text.find(reference_start) != std::string_view::npos;
}

std::string expand(std::string_view text, const Lookup& environment) {
  std::string out;
  while (true) {
    const auto start = text.find(reference_start);
    out += text.substr(0, start);
    if (start == std::string_view::npos) return out;
    text.remove_prefix(start + reference_start.size());
    const auto end = text.find('}');
    if (end == std::string_view::npos || end == 0) throw Error(Remedy::fix_config, "a reference must read ${env:NAME}");
    const std::string name(text.substr(0, end));
    const auto value = environment(name);
    if (!value) throw Error(Remedy::fix_config, fmt::format("environment variable '{}' is not set", name));
    out += *value;
    text.remove_prefix(end + 1);
  }
}

}  // namespace waybill::config
