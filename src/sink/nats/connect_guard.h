#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>

#include "waybill/time.h"

namespace waybill::nats {

// While one lives, a connection that is being made to `port` comes to an end: from `deadline` on its socket is shut
// down. libnats 3.4.1 has two places where it would wait for ever: a TLS handshake has no time limit, and a server that
// says nothing after its greeting sends it round in circles (mended in 3.8, nats.c #707). It does not give the socket
// out of its hands before it is through, so the guard looks for it among the sockets of this process: of those that
// go to this port it spares the ones that were there before, and those that are known to be in use.
class ConnectGuard {
 public:
  ConnectGuard(std::uint16_t port, Steady deadline);
  ~ConnectGuard();
  ConnectGuard(const ConnectGuard&) = delete;
  ConnectGuard& operator=(const ConnectGuard&) = delete;

  // Sockets in use.
  static void spare(int socket);
  static void forget(int socket);

 private:
  void watch(Steady deadline);
  void shut_down_sockets() const;

  const std::uint16_t port_;
  const std::set<std::uint64_t> before_;  // Which sockets were there, by inode.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;   // guarded by mutex_
  std::thread thread_;  // The last: it uses the others.
};

}  // namespace waybill::nats
