#pragma once

#include <cstdint>
#include <string>

namespace waybill::http {

// A listening socket on a loopback address. Closed at the end, unless released.
class Listener {
 public:
  // `address` is "localhost", one of 127.0.0.0/8, or "::1"; port 0: any free one.
  // Error(fix_config) for any other address: what is served here knows no passwords.
  Listener(const std::string& address, std::uint16_t port);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const std::string& address() const { return address_; }
  std::uint16_t port() const { return port_; }
  int fd() const { return fd_; }

  // The caller closes it from now on.
  int release();

 private:
  std::string address_;
  std::uint16_t port_ = 0;
  int fd_ = -1;
};

}  // namespace waybill::http
