#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "waybill/time.h"

#include "net/host.h"

struct ssl_ctx_st;
struct ssl_st;

namespace waybill::net {

// TLS on a connected, non-blocking socket. The other side must show a certificate of a known authority, made out to the
// host's name. Files are read anew for every session, so that a changed one counts from the next connection on.
// What fails is an Error(retry) that says what is wrong with the certificate. One thread.
class TlsSession {
 public:
  TlsSession(const TlsOptions& options, const std::string& host, int fd);

  // True when both have agreed; until then call it again when the socket is ready.
  bool shake_hands();
  // The earliest end of a certificate's time: of theirs, of those up to the authority that is trusted, of ours.
  // REQUIRES: hands were shaken
  Time trusted_until() const;
  // As Transport's.
  std::size_t write(std::string_view bytes);
  std::size_t read(std::span<char> buffer);
  bool waits_for_room() const { return waits_for_room_; }

 private:
  void check_it_is_for_now(int result);  // Throws if it is not.

  std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> context_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  bool waits_for_room_ = false;
};

}  // namespace waybill::net
