#pragma once

#include <memory>

#include "waybill/sink.h"

namespace waybill {

// Delivers to nowhere, at once: for benchmarks.
std::unique_ptr<Sink> null_sink();

}  // namespace waybill
