#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "waybill/log.h"
#include "waybill/sink.h"
#include "waybill/store.h"
#include "waybill/time.h"

#include "message/preview.h"

namespace waybill {

// What the keys that only destinations of one type have come to.
struct SinkSetup {
  // Makes the sink; nothing is connected yet. The log is for what concerns no single event.
  std::function<std::unique_ptr<Sink>(const Log& log)> make{};
  // Shows what would be sent. None: there is nothing to show.
  PreviewEvent preview{};
  // Looks at the destination, by `deadline`: would events be safe there? A `problem` is a set-up in which they would
  // not be, or could never arrive: the relay refuses to start. That it cannot be reached now is a `warning`.
  // None: there is nothing to look at.
  std::function<std::vector<Finding>(Steady deadline)> examine{};
};

}  // namespace waybill
