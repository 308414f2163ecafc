#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/nats_source.h"
#include "waybill/time.h"

#include "broker/nats/connection.h"

namespace waybill::nats {

// What JetStream says about a consumer, as far as we ask.
struct ConsumerState {
  std::string ack_policy{};             // "explicit", …
  std::string deliver_subject{};        // Of one that pushes.
  std::vector<std::string> subjects{};  // Empty: all.
  std::int64_t max_ack_pending = -1;
  std::int64_t max_deliver = -1;
  std::chrono::nanoseconds ack_wait{0};
};

struct ConsumerAnswer {
  ConsumerState state{};
  std::string error{};     // Empty if it was granted.
  bool missing = false;    // There is no such consumer.
  bool no_stream = false;  // There is no such stream.
};

// Throws Error(retry) for what is no JSON of JetStream's.
ConsumerAnswer read_consumer_answer(std::string_view json);
// The request for a consumer as the options want it.
std::string creation_request(const NatsSourceOptions& options);
// Why this consumer is not the one that the options want; empty if it is.
std::string mismatch(const ConsumerState& state, const NatsSourceOptions& options);

// The consumer, made if it is not there and `may_create`. Throws Error(fix_config) if it is not there, or another than
// the options want; Error(retry) if JetStream does not answer.
ConsumerState find_or_create(Connection& connection, const NatsSourceOptions& options, bool may_create,
                             Steady deadline);

// Does the stream keep what is terminated? Not if it does not tell.
bool keeps_terminated(Connection& connection, const NatsSourceOptions& options, Steady deadline);

}  // namespace waybill::nats
