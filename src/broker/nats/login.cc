#include "broker/nats/login.h"

#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "waybill/error.h"

#include "broker/nats/nkey.h"

namespace waybill::nats {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Remedy::fix_config, what);
}

template <typename T>
void take(const json& object, const char* name, T& value) {
  const auto found = object.find(name);
  if (found != object.end() && !found->is_null()) value = found->get<T>();
}

// Names the file that a seed is from.
template <typename Doing>
void with_key(const std::string& path, const std::string& seed, const Doing& doing) {
  try {
    doing(Nkey(seed));
  } catch (const Error& error) {
    refuse(fmt::format("{}: {}", path, error.what()));
  }
}

void log_in_by_key(json& said, const NatsLogin& login, const std::string& nonce) {
  if (nonce.empty()) refuse("it lets nobody log in by an nkey; set it up there, or remove 'nkey'");
  with_key(login.nkey_seed_file, read_seed(login.nkey_seed_file), [&](const Nkey& key) {
    if (key.public_key() != login.nkey) refuse("the seed is not that of 'nkey'");
    said["nkey"] = login.nkey;
    said["sig"] = key.sign(nonce);
  });
}

void log_in_by_credentials(json& said, const std::string& path, const std::string& nonce) {
  const Credentials credentials = read_credentials(path);
  with_key(path, credentials.seed, [&](const Nkey& key) {
    said["jwt"] = credentials.token;
    said["sig"] = key.sign(nonce);
  });
}

}  // namespace

void ServerInfo::update(std::string_view text) try {
  const auto said = json::parse(text);
  take(said, "tls_available", offers_tls);
  take(said, "tls_required", wants_tls);
  take(said, "headers", takes_headers);
  take(said, "ldm", lame);
  take(said, "nonce", nonce);
  take(said, "version", version);
  std::int64_t most = 0;
  take(said, "max_payload", most);
  // A server without a limit says -1.
  if (said.contains("max_payload"))
    max_payload = most > 0 ? static_cast<std::size_t>(most) : std::numeric_limits<std::size_t>::max();
} catch (const json::exception&) {
  throw Error(Remedy::retry, "it does not speak NATS: its INFO cannot be read; is the port right?");
}

void check_server(const ServerInfo& info, bool with_tls) {
  if (info.wants_tls && !with_tls) refuse(R"(it talks only over TLS; write "tls://", or set tls = true)");
  if (with_tls && !info.wants_tls && !info.offers_tls) refuse("it knows no TLS; set it up there");
  if (!info.takes_headers) refuse("it takes no headers; nats-server 2.2 or newer does, unless told not to");
}

std::string connect_line(const NatsServers& options, const ServerInfo& info) try {
  // With protocol 1 a server says when it is about to stop; with no_responders, when nobody listens to a subject.
  json said{{"verbose", false},
            {"pedantic", false},
            {"tls_required", options.tls.on},
            {"name", options.connection_name},
            {"lang", "waybill"},
            {"version", WAYBILL_VERSION},
            {"protocol", 1},
            {"headers", true},
            {"no_responders", true}};
  const NatsLogin& login = options.login;
  if (!login.user.empty()) {
    said["user"] = login.user;
    said["pass"] = login.password;
  }
  if (!login.token.empty()) said["auth_token"] = login.token;
  if (!login.nkey.empty()) log_in_by_key(said, login, info.nonce);
  if (!login.credentials_file.empty()) log_in_by_credentials(said, login.credentials_file, info.nonce);
  return fmt::format("CONNECT {}\r\n", said.dump());
} catch (const json::exception&) {
  // Not the library's words: they show what it was.
  refuse("user, password or token cannot be sent: it is not UTF-8");
}

}  // namespace waybill::nats
