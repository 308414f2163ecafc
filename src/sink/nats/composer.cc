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
  return preview;
}

std::size_t wire_size(const Message& message) {
  constexpr std::size_t first_line = 10;  // "NATS/1.0\r\n"
  constexpr std::size_t last_line = 2;
  constexpr std::size_t around_header = 4;  // ": " and "\r\n"
  return first_line + message.headers.bytes() + around_header * message.headers.size() + last_line +
         message.body.size();
}

}  // namespace waybill::nats
