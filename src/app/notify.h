#pragma once

#include <string>

#include "config/config.h"

namespace waybill::app {

// Tells systemd how the service is (sd_notify(3)): a datagram to the socket that $NOTIFY_SOCKET names. Without that
// variable it does nothing, and what cannot be sent is not: nobody should stop working because nobody listens.
// Thread-safe.
class Notifier {
 public:
  explicit Notifier(const config::Environment& environment);

  void ready() const;
  // To be followed by ready(), whatever comes of it.
  void reloading() const;
  void stopping() const;

 private:
  void send(const std::string& text) const;

  std::string socket_;
};

}  // namespace waybill::app
