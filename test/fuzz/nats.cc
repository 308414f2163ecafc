// Frames of NATS, as a server sends them, and what is read out of them. The first byte says how they are cut.
#include "broker/nats/frames.h"
#include "broker/nats/login.h"
#include "consume/nats/place.h"
#include "consume/nats/pull_consumer.h"
#include "fuzz/input.h"
#include "message/binding.h"
#include "sink/nats/ack.h"

namespace waybill::fuzz {
namespace {

void take(const nats::Frame& frame) {
  if (frame.kind == nats::Frame::Kind::info) accepts([&] { nats::ServerInfo().update(frame.text); });
  if (frame.kind != nats::Frame::Kind::message) return;
  auto headers = nats::read_headers(frame.headers);
  const std::size_t before = headers.size();
  decode_lines(headers);
  require(headers.size() <= before);
  nats::read_place(frame.reply_to);
  nats::refusal(nats::read_ack(frame.data), frame.subject, true);
  accepts([&] { nats::read_consumer_answer(frame.data); });
}

}  // namespace
}  // namespace waybill::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace waybill;
  fuzz::Input input(data, size);
  nats::FrameReader reader;
  const std::size_t piece = std::size_t{input.byte()} + 1;
  fuzz::accepts([&] { fuzz::feed<nats::FrameReader, nats::Frame>(reader, input.rest(), piece, fuzz::take); });
  return 0;
}
