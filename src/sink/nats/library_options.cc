#include "sink/nats/library_options.h"

#include <new>

#include <fmt/format.h>
#include <unistd.h>

namespace waybill::nats {
namespace {

std::string problem(natsStatus status, std::string_view what) {
  return status == NATS_OK ? std::string() : fmt::format("{}: {}", what, library_error(status));
}

std::string unreadable(const std::string& path) {
  if (path.empty() || ::access(path.c_str(), R_OK) == 0) return {};
  return fmt::format("cannot read {}", path);
}

}  // namespace

std::string library_error(natsStatus status) {
  natsStatus of = NATS_OK;
  const char* const last = nats_GetLastError(&of);
  std::string_view text = of == status && last ? last : "";
  if (const auto place = text.find("): "); text.starts_with('(') && place != std::string_view::npos)
    text.remove_prefix(place + 3);
  if (status == NATS_NO_SERVER) return "nobody listens there, or the name is not known";
  return text.empty() ? natsStatus_GetText(status) : std::string(text);
}

LibraryOptions::LibraryOptions() {
  if (natsOptions_Create(&options_) != NATS_OK) throw std::bad_alloc();
}

LibraryOptions::~LibraryOptions() {
  natsOptions_Destroy(options_);
}

std::string LibraryOptions::fill(const NatsOptions& options, const NatsServer& server) {
  const std::string url = fmt::format("nats://{}", server.text());
  if (auto wrong = problem(natsOptions_SetURL(options_, url.c_str()), url); !wrong.empty()) return wrong;
  natsOptions_SetName(options_, options.connection_name.c_str());
  natsOptions_SetTimeout(options_, options.connect_timeout.count());
  // Nothing is to be sent twice by the library, nor after we have said what became of it.
  natsOptions_SetAllowReconnect(options_, false);
  natsOptions_SetIgnoreDiscoveredServers(options_, true);
  // Signs of life are asked for by us. The library's timer would close the socket while we use it.
  natsOptions_SetPingInterval(options_, 0);
  // No thread that writes.
  natsOptions_SetSendAsap(options_, true);
  natsOptions_SetWriteDeadline(options_, options.ack_timeout.count());
  if (auto wrong = log_in(options.login); !wrong.empty()) return wrong;
  return options.tls.on ? secure(options.tls, server) : std::string();
}

std::string LibraryOptions::log_in(const NatsLogin& login) {
  for (const auto* path : {&login.credentials_file, &login.nkey_seed_file})
    if (auto wrong = unreadable(*path); !wrong.empty()) return wrong;
  if (!login.user.empty())
    return problem(natsOptions_SetUserInfo(options_, login.user.c_str(), login.password.c_str()), "user");
  if (!login.token.empty()) return problem(natsOptions_SetToken(options_, login.token.c_str()), "token");
  if (!login.credentials_file.empty())
    return problem(natsOptions_SetUserCredentialsFromFiles(options_, login.credentials_file.c_str(), nullptr),
                   login.credentials_file);
  if (!login.nkey.empty())
    return problem(natsOptions_SetNKeyFromSeed(options_, login.nkey.c_str(), login.nkey_seed_file.c_str()),
                   login.nkey_seed_file);
  return {};
}

std::string LibraryOptions::secure(const NatsTls& tls, const NatsServer& server) {
  std::string wrong = problem(natsOptions_SetSecure(options_, true), "TLS");
  if (wrong.empty() && !tls.ca.empty())
    wrong = problem(natsOptions_LoadCATrustedCertificates(options_, tls.ca.c_str()), tls.ca);
  if (wrong.empty() && !tls.certificate.empty())
    wrong =
        problem(natsOptions_LoadCertificatesChain(options_, tls.certificate.c_str(), tls.key.c_str()), tls.certificate);
  // Without a name the library would take any certificate that its authorities have signed.
  const std::string& name = tls.server_name.empty() ? server.host : tls.server_name;
  if (wrong.empty()) wrong = problem(natsOptions_SetExpectedHostname(options_, name.c_str()), name);
  return wrong;
}

}  // namespace waybill::nats
