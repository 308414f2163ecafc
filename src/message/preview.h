#pragma once

#include <functional>
#include <string>

#include "waybill/event.h"

#include "message/message.h"

namespace waybill {

// What would be sent for an event, and where to; nothing is sent.
struct Preview {
  std::string address{};
  Message message{};
  std::string note{};     // What a person may wonder about; empty: nothing.
  std::string refusal{};  // Why it would be rejected; empty if it would not. Then the rest is as far as it got.
};

// A sink that has a wire to show offers one.
using PreviewEvent = std::function<Preview(const EventView& event)>;

}  // namespace waybill
