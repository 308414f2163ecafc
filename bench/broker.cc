#include "broker.h"

#include <atomic>
#include <stdexcept>

#include <fmt/format.h>

#include "message/envelope.h"
#include "model/event_view.h"
#include "workload.h"

namespace waybill::bench {

Message sample_message(const Binding& binding) {
  Event event = event_number(1);
  event.id = EventId::make();
  Message message;
  const std::string refused =
      encoder({}, binding)(view_of(event, R"({"source":"bench"})", event.occurred_at.value()), message);
  if (!refused.empty()) throw std::runtime_error("the sample cannot be sent: " + refused);
  return message;
}

std::string message_id(int publisher, long n) {
  return fmt::format("{:08x}-0000-4000-8000-{:012x}", publisher, n);
}

int next_publisher() {
  static std::atomic<int> number = 0;
  return ++number;
}

}  // namespace waybill::bench
