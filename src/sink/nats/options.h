#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "message/address.h"
#include "message/envelope.h"
#include "net/host.h"

namespace waybill {

// At most one way of saying who we are; none: whoever may come.
struct NatsLogin {
  std::string user{};
  std::string password{};
  std::string token{};
  std::string credentials_file{};  // A user's JWT and the seed of its key, as nsc writes it. Read at every connection.
  std::string nkey{};              // A user's public key,
  std::string nkey_seed_file{};    // and its seed. Read at every connection.
};

// The stream that takes the events.
struct NatsStream {
  enum class Retention { limits, interest, workqueue };
  enum class Discard { old_messages, new_messages };

  std::string name{};    // None: whichever takes the subject.
  std::string domain{};  // Of JetStream; none: the server's own.
  bool create = false;   // If it is not there, as follows:
  std::vector<std::string> subjects{};
  int replicas = 1;
  Retention retention = Retention::limits;
  Discard discard = Discard::new_messages;
  std::chrono::milliseconds max_age{0};  // 0: no limit, as below.
  std::int64_t max_bytes = 0;
  std::int64_t max_messages = 0;
  std::chrono::milliseconds duplicate_window{std::chrono::minutes(2)};
};

struct NatsOptions {
  std::vector<net::Host> servers{};  // Tried in turn.
  NatsLogin login{};
  net::TlsOptions tls{};
  NatsStream stream{};
  std::string connection_name = "waybill";  // What the server's people see.
  std::string inbox_prefix = "_INBOX";      // Where acks are sent to: what we must be allowed to subscribe to.

  Address subject{"{topic}", addresses::subject};
  std::string subject_pattern = ">";  // What every subject of that template matches.
  Encoder encode{};

  std::size_t in_flight_max = 2000;
  std::chrono::milliseconds connect_timeout{5'000};  // For each server.
  std::chrono::milliseconds ack_timeout{30'000};
  std::chrono::milliseconds heartbeat{5'000};  // After twice this long without a sign the server is gone.
};

}  // namespace waybill
