// A message of a stranger's, out of its envelope: the form, the content type, the protocol's own id, headers
// ("name: value" lines up to an empty one), and the body.
#include "consume/decode.h"
#include "fuzz/input.h"
#include "message/binding.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace waybill;
  fuzz::Input input(data, size);
  const auto form = static_cast<MessageForm>(input.byte() % 3);
  Incoming incoming;
  incoming.content_type = input.line();
  incoming.id = input.line();
  incoming.address = input.line();
  for (std::string line = input.line(); !line.empty() && incoming.headers.size() < 50; line = input.line()) {
    const auto colon = line.find(": ");
    if (colon != std::string::npos) incoming.headers.push_back({line.substr(0, colon), line.substr(colon + 2)});
  }
  incoming.body = input.rest();
  decode_lines(incoming.headers);
  fuzz::accepts([&] {
    const Delivery delivery = consume::decode(incoming, form);
    fuzz::require(!delivery.id.empty() && !delivery.event.stream.tenant.empty());
    consume::context_of(delivery);
  });
  return 0;
}
