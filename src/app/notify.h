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
  // Not ready yet, for the reason that `status` gives. systemd goes on waiting: call it again within a minute.
  void waiting(std::string status) const;

 private:
  void send(const std::string& text) const;

  std::string socket_;
};

}  // namespace waybill::app
