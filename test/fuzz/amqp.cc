// Frames of AMQP 0-9-1, as a broker sends them: the first two bytes say how they are cut, and whether login is over.
#include "broker/rabbitmq/frames.h"
#include "consume/rabbitmq/rabbitmq_link.h"
#include "fuzz/input.h"

namespace waybill::fuzz {
namespace {

std::size_t touch(amqp_bytes_t bytes) {
  std::size_t sum = 0;
  for (const char c : rabbitmq::text_of(bytes)) sum += static_cast<unsigned char>(c);
  return sum;
}

void take_method(const amqp_method_t& method) {
  if (method.id == AMQP_CONNECTION_START_METHOD)
    touch(static_cast<const amqp_connection_start_t*>(method.decoded)->mechanisms);
  if (method.id == AMQP_CONNECTION_CLOSE_METHOD)
    touch(static_cast<const amqp_connection_close_t*>(method.decoded)->reply_text);
  if (method.id == AMQP_CHANNEL_CLOSE_METHOD)
    touch(static_cast<const amqp_channel_close_t*>(method.decoded)->reply_text);
  if (method.id == AMQP_BASIC_DELIVER_METHOD)
    touch(static_cast<const amqp_basic_deliver_t*>(method.decoded)->routing_key);
}

void take(const amqp_frame_t& frame) {
  if (frame.frame_type == AMQP_FRAME_METHOD) take_method(frame.payload.method);
  if (frame.frame_type == AMQP_FRAME_BODY) touch(frame.payload.body_fragment);
  if (frame.frame_type != AMQP_FRAME_HEADER || !frame.payload.properties.decoded) return;
  Incoming incoming;
  rabbitmq::take_properties(incoming, *static_cast<const amqp_basic_properties_t*>(frame.payload.properties.decoded));
}

}  // namespace
}  // namespace waybill::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace waybill;
  fuzz::Input input(data, size);
  rabbitmq::FrameReader reader;
  const std::size_t piece = std::size_t{input.byte()} + 1;
  if (input.flag()) {
    reader.allow(4096);
    reader.allow_channel();
  }
  fuzz::accepts([&] { fuzz::feed<rabbitmq::FrameReader, amqp_frame_t>(reader, input.rest(), piece, fuzz::take); });
  return 0;
}
