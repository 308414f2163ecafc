#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/store.h"

#include "broker/nats/connection.h"
#include "sink/nats/options.h"

namespace waybill::nats {

// What JetStream says about a stream, as far as we ask.
struct StreamState {
  std::string name{};
  std::vector<std::string> subjects{};
  std::string storage{};    // "file", "memory"
  std::string retention{};  // "limits", "interest", "workqueue"
  std::string discard{};    // "old", "new"
  int replicas = 1;
  bool no_ack = false;
  bool sealed = false;
  bool mirror = false;
  std::int64_t max_message_size = -1;
  std::int64_t max_messages = -1;
  std::int64_t max_bytes = -1;
  std::chrono::nanoseconds max_age{0};
  std::chrono::nanoseconds duplicate_window{0};
  std::int64_t consumers = 0;
};

// What a request to JetStream came to: `error` is empty if it was granted.
struct StreamAnswer {
  StreamState state{};
  std::string error{};
  bool missing = false;     // There is no such stream.
  bool unanswered = false;  // Nobody answered; JetStream may be away.
};

// Throws Error(retry) for what is no JSON of JetStream's.
StreamAnswer read_stream_answer(std::string_view json);
// The request for a stream as the options want it.
std::string creation_request(const NatsStream& stream);
StreamAnswer look_up_stream(Connection& connection, const NatsStream& stream, Steady deadline);
StreamAnswer create_stream(Connection& connection, const NatsStream& stream, Steady deadline);
// The names of the streams that take something of what matches `pattern`, but for those of the server's own.
std::vector<std::string> find_streams(Connection& connection, const std::string& domain, const std::string& pattern,
                                      Steady deadline);
// Can a message match both?
bool overlap(std::string_view pattern, std::string_view other);

// Would events be safe there? `retry_gap`: the longest time between two attempts of an event.
std::vector<Finding> examine_stream(const StreamState& state, std::chrono::milliseconds retry_gap);

}  // namespace waybill::nats
