#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "support/certificates.h"
#include "support/child_process.h"

namespace waybill {

// A nats-server of a test's own with JetStream, on a free port, with its store in a temporary folder.
class TmpNats {
 public:
  struct Options {
    std::string extra_config{};                       // Lines of its configuration.
    const Certificates* tls = nullptr;                // Only over TLS, with a certificate for localhost;
    std::optional<Certificates::Pair> certificate{};  // or with this one.
    bool asks_for_certificates = false;               // Of clients.
    bool jetstream = true;
  };
  TmpNats();
  explicit TmpNats(Options options);
  ~TmpNats();

  std::uint16_t port() const { return port_; }
  std::string url() const;
  // The server's process, while it runs.
  pid_t pid() const { return server_->pid(); }

  // All on the same port, with the same store. A clean end, and a start;
  void stop();
  void start();
  void restart();
  // an end by SIGKILL;
  void kill();
  // and another configuration, without a restart: see NATS' documentation for what that takes in.
  void reload(const std::string& extra_config);
  // It tells its clients to go, and ends a while later.
  void begin_lame_duck_mode();

  const std::string& folder() const { return folder_.path(); }

 private:
  void write_config() const;
  std::string log() const;

  Options options_;
  TmpFolder folder_;
  const std::uint16_t port_;
  std::unique_ptr<ChildProcess> server_;
};

}  // namespace waybill
