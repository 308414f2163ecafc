#pragma once

#include <string>

#include <nats/nats.h>

#include "sink/nats/options.h"

namespace waybill::nats {

// What the library says about a call that has just failed on this thread; without the place in its source.
std::string library_error(natsStatus status);

// The library's options for one connection. Made anew for each: certificates and credentials are read from their files.
class LibraryOptions {
 public:
  LibraryOptions();
  ~LibraryOptions();
  LibraryOptions(const LibraryOptions&) = delete;
  LibraryOptions& operator=(const LibraryOptions&) = delete;

  // Returns what is wrong; empty if nothing is.
  std::string fill(const NatsOptions& options, const NatsServer& server);
  natsOptions* get() const { return options_; }

 private:
  std::string log_in(const NatsLogin& login);
  std::string secure(const NatsTls& tls, const NatsServer& server);

  natsOptions* options_ = nullptr;
};

}  // namespace waybill::nats
