#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "waybill/log.h"
#include "waybill/sink.h"
#include "waybill/store.h"

#include "sink/nats/options.h"

namespace waybill {

// Publishes to NATS JetStream. `delivered` is an event that a stream has acknowledged, now or at an earlier attempt
// that it remembers. docs/nats.md has every outcome.
std::unique_ptr<Sink> nats_sink(NatsOptions options, Log log);

// Would events be safe there? `retry_gap`: the longest time between two attempts of an event.
std::vector<Finding> examine_nats(const NatsOptions& options, std::chrono::milliseconds retry_gap, Steady deadline);

}  // namespace waybill
