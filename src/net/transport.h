#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "waybill/time.h"

#include "base/waker.h"
#include "net/host.h"

namespace waybill::net {

// How a thread waits for another side: not beyond a deadline, and not when it is wanted elsewhere. A call of the waker
// that comes meanwhile is used up.
class Patience {
 public:
  Patience(Waker& waker, std::function<bool()> called_off) : waker_(waker), called_off_(std::move(called_off)) {}

  // Until `fd` can be read or, if `or_written`, written. False if that takes too long. Throws Error(retry) if it is
  // called off.
  bool try_wait(int fd, bool or_written, Steady deadline) const;
  // The same, and throws Error(retry) if it takes too long.
  void wait(int fd, bool or_written, Steady deadline) const;
  // Throws Error(retry) if it is called off, or `deadline` is over: for whoever has no need to wait.
  void check(Steady deadline) const;

 private:
  Waker& waker_;
  std::function<bool()> called_off_;
};

class TlsSession;

// Bytes to and from a host, by TCP or TLS. Nothing here blocks once it is made. What fails is an Error(retry), which
// does not say which host it is about. One thread.
class Transport {
 public:
  // Looks up the name, which takes as long as the system takes, and tries its addresses one after the other, by
  // `deadline`.
  Transport(const Host& host, const Patience& patience, Steady deadline);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Agrees on TLS with `host`, by `deadline`. From here on all bytes go through it.
  void secure(const TlsOptions& tls, const Host& host, const Patience& patience, Steady deadline);

  // Until when the certificates hold that were agreed on; none: there is no TLS.
  std::optional<Time> trusted_until() const;

  int fd() const { return fd_; }
  // How many bytes were taken; 0: none for now.
  std::size_t write(std::string_view bytes);
  // How many bytes came; 0: none for now.
  std::size_t read(std::span<char> buffer);
  // After write() has not taken all: does it wait for room, and not for bytes of the other side?
  bool waits_for_room() const;

 private:
  int fd_;
  std::unique_ptr<TlsSession> tls_;
};

}  // namespace waybill::net
