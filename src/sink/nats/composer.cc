#include "sink/nats/composer.h"

namespace waybill::nats {
namespace {

// What JetStream knows an event by, and tells a repetition from: its id, the same at every attempt. An event that a
// person has sent again is another message, or it would be swallowed as a repetition of the first.
void append_message_id(std::string& out, const EventView& event) {
  event.id.append_to(out);
  if (event.redrives > 0) out += "-r" + std::to_string(event.redrives);
}

}  // namespace

std::string Composer::compose(const EventView& event, std::string& subject, Message& message) const {
  std::string refused = subject_.resolve(subject, event);
  if (refused.empty()) refused = encode_(event, message);
  if (!refused.empty()) return refused;
  std::string id;
  append_message_id(id, event);
  message.headers.add("Nats-Msg-Id", id);
  if (!stream_.empty()) message.headers.add("Nats-Expected-Stream", stream_);
  return {};
}

Preview Composer::preview(const EventView& event) const {
  Preview preview;
  preview.refusal = compose(event, preview.address, preview.message);
  preview.note = subject_.note(event);
  return preview;
}

}  // namespace waybill::nats
