// Whatever stands in a row of the log: a message carries it whole, or not at all, and nothing in it becomes a header,
// a member or a line of its own.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>

#include "message/envelope.h"
#include "model/validate.h"

namespace waybill {
namespace {

using Json = nlohmann::json;

// Texts with what means something in lines and in JSON; now and then with what must not be in a text at all.
std::string text() {
  const auto tame = rc::gen::element<std::string>("a", "Z", "7", " ", "%", "\"", "\\", ":", ",", "{", "}", "/", "ce-id",
                                                  "ü", "😀", "=", "-", ".");
  const auto ascii = rc::gen::element<std::string>("a", "Z", "7", "%", "-", ".");
  const auto wild = rc::gen::element<std::string>("a", "\r\n", "\n", "\t", "\x7f", "\xff", "\xc2\x85");
  const auto piece = *rc::gen::weightedElement<int>({{4, 0}, {8, 1}, {1, 2}});
  const auto pieces = *rc::gen::resize(6, rc::gen::container<std::vector<std::string>>(piece == 0   ? tame
                                                                                       : piece == 1 ? ascii
                                                                                                    : wild));
  std::string joined;
  for (const auto& part : pieces) joined += part;
  return joined;
}

struct Row {
  std::string type = text(), tenant = text(), id = text(), key = text(), content_type = text(), schema = text(),
              headers{}, payload{}, metadata{};
  std::vector<Header> own{};

  Row() {
    const int count = *rc::gen::inRange(0, 3);
    for (int i = 0; i < count; ++i) own.push_back({text(), text()});
    headers = headers_json(own);
    own.clear();  // What is not UTF-8 has become U+FFFD: it is what is stored that counts.
    const auto stored = nlohmann::ordered_json::parse(headers.empty() ? "{}" : headers);
    for (const auto& [name, value] : stored.items()) own.push_back({name, value.get<std::string>()});
    payload = Json{{"x", "y"}}.dump();
    metadata = Json{{"m", 1}}.dump(1);
  }
  EventView view() const {
    return {.seq = 7,
            .tenant = tenant,
            .topic = "t",
            .type = type,
            .aggregate_type = "a",
            .aggregate_id = id,
            .key = key,
            .payload = payload,
            .content_type = content_type,
            .metadata = metadata,
            .headers = headers,
            .schema_id = schema};
  }
};

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
    i += 2;
  }
  return out;
}

const Binding& any_binding() {
  return **rc::gen::element(&bindings::amqp, &bindings::amqp_underscore, &bindings::nats, &bindings::http);
}

void check_lines(const Message& message, const Binding& binding) {
  for (std::size_t i = 0; i < message.headers.size(); ++i) {
    const auto [name, value] = message.headers[i];
    RC_ASSERT(!name.empty());
    for (const char c : std::string(name) + std::string(value)) {
      RC_ASSERT(static_cast<unsigned char>(c) >= 0x20);
      RC_ASSERT(c != 0x7F);
      RC_ASSERT(!binding.lines || static_cast<unsigned char>(c) < 0x7F);
    }
    RC_ASSERT(!binding.lines || name.find_first_of(": ") == std::string_view::npos);
  }
}

// As a reader finds them who knows what is encoded.
void check_own_headers(const Message& message, const Row& row) {
  std::vector<Header> read;
  for (std::size_t i = 0; i < message.headers.size(); ++i)
    read.push_back({std::string(message.headers[i].name), std::string(message.headers[i].value)});
  decode_lines(read);
  for (std::size_t i = 0; i < row.own.size(); ++i) {
    RC_ASSERT(read[i].name == row.own[i].name);
    RC_ASSERT(read[i].value == row.own[i].value);
  }
}

RC_GTEST_PROP(EnvelopeProperty, BinaryCloudEventsCarryEveryAttributeOrNothing, ()) {
  const Row row;
  const Binding& binding = any_binding();
  Message message;
  const std::string refusal = encoder({}, binding)(row.view(), message);
  RC_CLASSIFY(refusal.empty(), "carried");
  if (!refusal.empty()) {
    RC_ASSERT(refusal.find('\n') == std::string::npos);
    return;
  }
  check_lines(message, binding);
  check_own_headers(message, row);
  const auto attribute = [&](std::string_view name) {
    const auto value = message.headers.find(std::string(binding.attribute_prefix) + std::string(name));
    return binding.lines ? percent_decoded(value) : std::string(value);
  };
  RC_ASSERT(attribute("type") == row.type);
  RC_ASSERT(attribute("subject") == row.id);
  RC_ASSERT(attribute("schemaid") == row.schema);
  RC_ASSERT(Json::parse(attribute("metadata")) == Json::parse(row.metadata));
  RC_ASSERT(message.body == row.payload);
}

RC_GTEST_PROP(EnvelopeProperty, BodiesAreJsonThatSaysWhatTheEventSays, ()) {
  const Row row;
  const Binding& binding = any_binding();
  const auto envelope = *rc::gen::element(Envelope::cloudevents_structured, Envelope::waybill, Envelope::masstransit);
  EnvelopeOptions options{.envelope = envelope};
  options.message_types.emplace_back("urn:message:{type|topic}");
  Message message;
  const std::string refusal = encoder(std::move(options), binding)(row.view(), message);
  RC_CLASSIFY(refusal.empty(), "carried");
  if (!refusal.empty()) return;
  check_lines(message, binding);
  check_own_headers(message, row);
  const Json body = Json::parse(message.body);
  const char* payload = envelope == Envelope::masstransit ? "message"
                        : envelope == Envelope::waybill   ? "event_data"
                                                          : "data";
  if (body.contains(payload)) RC_ASSERT(body[payload] == Json::parse(row.payload));
  if (envelope == Envelope::waybill) {
    RC_ASSERT(body["event_type"] == row.type);
    RC_ASSERT(body["aggregate_id"] == row.id);
    RC_ASSERT(body.value("key", "") == row.key);
    RC_ASSERT(body.size() == 8U + (row.schema.empty() ? 0 : 1) + (row.key.empty() ? 0 : 1));
  }
  if (envelope == Envelope::cloudevents_structured) RC_ASSERT(body["type"] == row.type);
  if (envelope == Envelope::masstransit)
    for (const auto& [name, value] : row.own) RC_ASSERT(body["headers"][name] == value);
}

}  // namespace
}  // namespace waybill
