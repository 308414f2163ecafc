#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "broker/nats/options.h"
#include "message/address.h"
#include "message/envelope.h"

namespace waybill {

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

struct NatsOptions : NatsServers {
  NatsStream stream{};
  Address subject{"{topic}", addresses::subject};
  std::string subject_pattern = ">";  // What every subject of that template matches.
  Encoder encode{};

  std::size_t in_flight_max = 2000;
  std::chrono::milliseconds ack_timeout{30'000};
};

}  // namespace waybill
