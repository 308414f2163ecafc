#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "waybill/time.h"

#include "base/waker.h"
#include "sink/rabbitmq/options.h"

namespace waybill::rabbitmq {

// How a thread waits for the broker: not beyond a deadline, and not when it is wanted elsewhere.
class Patience {
 public:
  Patience(Waker& waker, std::function<bool()> called_off) : waker_(waker), called_off_(std::move(called_off)) {}

  // Until `fd` can be read or, if `or_written`, written. Throws Error(retry) if that takes too long, or is called off.
  void wait(int fd, bool or_written, Steady deadline) const;

 private:
  Waker& waker_;
  std::function<bool()> called_off_;
};

class TlsSession;

// Bytes to and from a host, by TCP or TLS. Nothing here blocks once it is made. What fails is an Error(retry), which
// does not say which host it is about. One thread.
class Transport {
 public:
  // Looks up the name, tries its addresses one after the other, and agrees on TLS if that is on: by `deadline`.
  Transport(const RabbitmqHost& host, const RabbitmqTls& tls, const Patience& patience, Steady deadline);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

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

}  // namespace waybill::rabbitmq
