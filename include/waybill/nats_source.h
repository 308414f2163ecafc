#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "waybill/api.h"
#include "waybill/consume.h"
#include "waybill/log.h"

namespace WAYBILL_API waybill {

// A durable pull consumer of a stream in NATS JetStream. Messages are acknowledged one by one; while they are here the
// server is told that they are being worked on.
//
// Order: JetStream hands out what was not acknowledged again after `ack_wait`, and what follows it meanwhile. So with
// several messages handed out (`prefetch` above 1) the order of a key holds as long as the connection does and nobody
// else reads by the same consumer. With 1, the default, it always holds: the next message comes when the one before is
// acknowledged, to whoever asks.
struct NatsSourceOptions {
  std::vector<std::string> servers{};  // "nats://host:4222", "tls://host"; tried in turn.
  // At most one way of saying who we are.
  std::string user{};
  std::string password{};
  std::string token{};
  std::string credentials_file{};  // As nsc makes it. Read at every connection, as are the others.
  std::string nkey{};
  std::string nkey_seed_file{};
  bool tls = false;
  std::string tls_ca{};  // File of certificates to trust; empty: the system's.
  std::string tls_certificate{};
  std::string tls_key{};
  std::string tls_server_name{};

  std::string stream{};
  std::string durable{};                // The consumer's name on the server.
  std::vector<std::string> subjects{};  // Which of the stream's, with wildcards; none: all. At most one before 2.10.
  std::string domain{};                 // Of JetStream; none: the server's own.
  std::string inbox_prefix = "_INBOX";
  // The consumer is made if it is not there. If it is, its subjects and max_deliver must be as these say, and with a
  // prefetch of 1 its max_ack_pending 1; its ack_wait is heeded as it is.
  bool create = true;
  std::uint16_t prefetch = 1;  // Most that are handed out and not acknowledged (max_ack_pending).
  // A larger message, headers included, is not taken in: it is given up, as one that cannot be read. 1 KiB to 64 MiB.
  // Memory: at most twice `prefetch` of them.
  std::size_t message_bytes_max = std::size_t{16} << 20;
  std::chrono::milliseconds ack_wait{30'000};  // After so long without a sign of us a message is handed out again.
  std::int64_t max_deliver = -1;               // How often at most; -1: any number. What is over is left in the stream.
  // What is rejected (terminated) is kept elsewhere, or not needed. A stream with limits keeps it anyway, and this need
  // not be said; one with retention `workqueue` or `interest` throws it away. So there nothing is rejected without
  // this.
  bool reject = false;

  std::chrono::milliseconds connect_timeout{5'000};  // For each server.
  std::chrono::milliseconds heartbeat{5'000};        // After twice this long without a sign the server is gone.
  std::chrono::milliseconds reconnect_max{30'000};   // Longest wait before it is tried again.
};

// Throws Error(fix_config) for options that cannot be.
std::unique_ptr<MessageSource> nats_source(NatsSourceOptions options, Log log);

}  // namespace waybill
