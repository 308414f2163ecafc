// An event as an application may have written it into the table, made into a message: fields by lines, the payload
// last. Where headers are lines, none of them may break one.
#include "message/envelope.h"

#include <array>

#include "fuzz/input.h"
#include "message/address.h"
#include "message/binding.h"

namespace waybill::fuzz {
namespace {

void check_lines(const Message& message) {
  for (std::size_t i = 0; i < message.headers.size(); ++i)
    for (const std::string_view text : {message.headers[i].name, message.headers[i].value})
      for (const char c : text) require(c >= ' ' && c < 0x7F);
}

}  // namespace
}  // namespace waybill::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace waybill;
  static constexpr std::array bindings{&bindings::amqp, &bindings::nats, &bindings::http};
  fuzz::Input input(data, size);
  EnvelopeOptions options{.envelope = static_cast<Envelope>(input.byte() % 5)};
  const Binding& binding = *bindings[input.byte() % bindings.size()];
  options.message_types.emplace_back("urn:message:{type:pascal}");
  const bool json = input.flag();
  std::array<std::string, 9> texts;
  for (auto& text : texts) text = input.line();
  const EventView event{.tenant = texts[0],
                        .topic = texts[1],
                        .type = texts[2],
                        .aggregate_type = texts[3],
                        .aggregate_id = texts[4],
                        .key = texts[5],
                        .payload = input.rest(),
                        .payload_is_json = json,
                        .content_type = texts[6],
                        .metadata = "{}",
                        .headers = texts[7],
                        .routing_key = texts[8]};
  Message message;
  const bool carried = encoder(std::move(options), binding)(event, message).empty();
  if (carried && binding.lines) fuzz::check_lines(message);
  std::string subject;
  if (Address("e.{tenant}.{topic}", addresses::subject).resolve(subject, event).empty())
    fuzz::require(subject.starts_with("e.") && subject.find_first_of("*> \r\n") == std::string::npos);
  return 0;
}
