#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/certificates.h"
#include "support/child_process.h"

namespace waybill {

// A RabbitMQ server of a test's own, on free ports, in a temporary folder, with an epmd of its own. It takes some
// seconds to start. All of it dies with the test.
class TmpRabbitmq {
 public:
  struct Options {
    std::vector<std::string> plugins{};
    const Certificates* tls = nullptr;    // With a TLS listener that asks for certificates but does not insist.
    std::vector<std::string> settings{};  // More lines of rabbitmq.conf.
  };

  TmpRabbitmq() : TmpRabbitmq(Options()) {}
  explicit TmpRabbitmq(const Options& options);
  ~TmpRabbitmq();
  TmpRabbitmq(const TmpRabbitmq&) = delete;
  TmpRabbitmq& operator=(const TmpRabbitmq&) = delete;

  std::uint16_t port() const { return port_; }
  std::uint16_t tls_port() const { return tls_port_; }  // 0 without certificates.
  std::string url() const { return "amqp://guest:guest@127.0.0.1:" + std::to_string(port_) + "/"; }

  // The server's process, while it runs.
  pid_t pid() const { return server_->pid(); }

  // A clean end.
  void stop();
  // After stop() or kill(): on the same ports, with all that was durable.
  void start();
  // As a power cut would.
  void kill();

  // What `rabbitmqctl ARGUMENTS…` prints; throws if it fails. It takes a second or two.
  std::string control(std::vector<std::string> arguments) const;

 private:
  std::vector<std::string> with_environment(std::vector<std::string> command) const;
  bool accepts_connections() const;

  TmpFolder folder_;
  std::uint16_t port_;
  std::uint16_t tls_port_;
  std::uint16_t dist_port_;
  std::uint16_t epmd_port_;
  std::unique_ptr<ChildProcess> epmd_;
  std::unique_ptr<ChildProcess> server_;
};

}  // namespace waybill
