#include "message/envelope.h"

#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/time_text.h"

namespace waybill {
namespace {

using testing::HasSubstr;
using testing::Not;

// The event of docs/envelopes.md.
EventView example() {
  return {.seq = 42,
          .id = *EventId::parse("018f3c1e-7b1a-7c3d-9e2f-0123456789ab"),
          .tenant = "north",
          .topic = "patients",
          .type = "patient.checked-in",
          .aggregate_type = "visit",
          .aggregate_id = "v-7",
          .version = 3,
          .payload = R"({"visit":"v-7", "name":"Jörg"})",
          .content_type = "application/json",
          .metadata = R"({"user":"reception"})",
          .headers = R"({"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","priority":"high"})",
          .schema_id = "https://example.org/schemas/check-in",
          .schema_version = 2,
          .occurred_at = *parse_rfc3339("2026-02-19T08:30:00Z"),
          .created_at = *parse_rfc3339("2026-02-19T08:30:00.25Z")};
}

EnvelopeOptions options(Envelope envelope) {
  EnvelopeOptions options{.envelope = envelope, .source = "/clinic"};
  if (envelope == Envelope::masstransit) options.message_types.emplace_back("urn:message:Clinic.Events:{type:pascal}");
  return options;
}

std::string encoded(const EventView& event, Envelope envelope, const Binding& binding, Message& message) {
  return encoder(options(envelope), binding)(event, message);
}

Message message_of(const EventView& event, Envelope envelope, const Binding& binding) {
  Message message;
  EXPECT_EQ(encoded(event, envelope, binding, message), "");
  return message;
}

std::string refusal(const EventView& event, Envelope envelope, const Binding& binding) {
  Message message;
  return encoded(event, envelope, binding, message);
}

// As docs/envelopes.md shows a message.
std::string shown(const Message& message, bool has_properties) {
  std::string text;
  if (has_properties)
    text += fmt::format("content_type: {}\nmessage_id: {}\ntype: {}\ntimestamp: {}\n\n", message.content_type,
                        message.id, message.type, to_rfc3339(message.timestamp));
  for (std::size_t i = 0; i < message.headers.size(); ++i)
    text += fmt::format("{}: {}\n", message.headers[i].name, message.headers[i].value);
  return text + "\n" + message.body + "\n";
}

std::string page() {
  std::ifstream file(WAYBILL_SOURCE_DIR "/docs/envelopes.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

constexpr std::array all_envelopes{Envelope::cloudevents, Envelope::cloudevents_structured, Envelope::waybill,
                                   Envelope::raw, Envelope::masstransit};
constexpr std::array all_bindings{&bindings::amqp, &bindings::amqp_underscore, &bindings::nats, &bindings::http};

TEST(Envelopes, AreAsThePageShowsThem) {
  const std::string text = page();
  const auto example_of = [&](Envelope envelope, const Binding& binding) {
    const auto message = message_of(example(), envelope, binding);
    EXPECT_THAT(text, HasSubstr("```text\n" + shown(message, !binding.lines) + "```\n"));
  };
  for (const Envelope envelope : all_envelopes) example_of(envelope, bindings::amqp);
  example_of(Envelope::cloudevents, bindings::nats);
}

TEST(Envelopes, CarryTraceSchemaAndOwnHeadersInEachBinding) {
  for (const Envelope envelope : all_envelopes)
    for (const Binding* binding : all_bindings) {
      const auto message = message_of(example(), envelope, *binding);
      EXPECT_EQ(message.headers.find("priority"), "high");
      EXPECT_EQ(message.headers.find("traceparent"), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
      std::string all = message.body;
      for (std::size_t i = 0; i < message.headers.size(); ++i) all += fmt::format("\n{}", message.headers[i].value);
      EXPECT_THAT(all, HasSubstr("https://example.org/schemas/check-in"));
      EXPECT_THAT(all, HasSubstr(R"("visit":"v-7", "name":"Jörg"})")) << "byte for byte";
      EXPECT_EQ(message.id, "018f3c1e-7b1a-7c3d-9e2f-0123456789ab");
      EXPECT_EQ(message.type, "patient.checked-in");
    }
}

TEST(Envelopes, NeedLittle) {
  const EventView bare{
      .tenant = "default", .topic = "stock", .type = "stock", .payload = "{}", .content_type = "application/json"};
  const auto binary = message_of(bare, Envelope::cloudevents, bindings::http);
  EXPECT_EQ(shown(binary, false),
            "ce-specversion: 1.0\nce-id: 00000000-0000-0000-0000-000000000000\nce-source: /clinic\nce-type: stock\n"
            "ce-time: 1970-01-01T00:00:00.000000Z\n\n{}\n");
  EXPECT_EQ(
      message_of(bare, Envelope::waybill, bindings::amqp).body,
      R"({"id":"00000000-0000-0000-0000-000000000000","aggregate_id":"","aggregate_type":"","event_type":"stock",)"
      R"("event_data":{},"metadata":{},"version":1,"timestamp":"1970-01-01T00:00:00.000000Z"})");
  EXPECT_EQ(shown(message_of(bare, Envelope::raw, bindings::http), false), "\n{}\n");
}

TEST(Envelopes, PutBytesInBase64) {
  EventView event = example();
  event.payload = std::string_view("\x00\xff", 2);
  event.payload_is_json = false;
  event.content_type = "image/x";
  const auto structured =
      nlohmann::json::parse(message_of(event, Envelope::cloudevents_structured, bindings::amqp).body);
  EXPECT_EQ(structured["data_base64"], "AP8=");
  EXPECT_EQ(structured["datacontenttype"], "image/x");
  EXPECT_FALSE(structured.contains("data"));
  EXPECT_THAT(message_of(event, Envelope::waybill, bindings::amqp).body, HasSubstr(R"("event_data_base64":"AP8=")"));
  EXPECT_EQ(message_of(event, Envelope::raw, bindings::nats).body, event.payload);
  EXPECT_EQ(message_of(event, Envelope::cloudevents, bindings::nats).body, event.payload);
  EXPECT_EQ(refusal(event, Envelope::masstransit, bindings::amqp), "MassTransit carries JSON objects only");
}

// Readers take `data` for JSON only if the content type says so.
TEST(Envelopes, LookAtTheContentTypeOfData) {
  EventView event = example();
  for (const char* json : {"application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"}) {
    event.content_type = json;
    EXPECT_THAT(message_of(event, Envelope::cloudevents_structured, bindings::amqp).body, HasSubstr("\"data\":{"));
  }
  event.content_type = "text/plain";
  EXPECT_THAT(message_of(event, Envelope::cloudevents_structured, bindings::amqp).body, HasSubstr("\"data_base64\":"));
}

TEST(Envelopes, NameASchemaByDataschemaOnlyIfItIsAUri) {
  EventView event = example();
  event.schema_id = "check-in";
  const auto message = message_of(event, Envelope::cloudevents, bindings::http);
  EXPECT_EQ(message.headers.find("ce-dataschema"), "");
  EXPECT_EQ(message.headers.find("ce-schemaid"), "check-in");
}

TEST(Envelopes, PercentEncodeAttributesInLines) {
  EventView event = example();
  event.aggregate_id = "Jörg \"100%\"";
  EXPECT_EQ(message_of(event, Envelope::cloudevents, bindings::nats).headers.find("ce-subject"),
            "J%C3%B6rg%20%22100%25%22");
  EXPECT_EQ(message_of(event, Envelope::cloudevents, bindings::amqp).headers.find("cloudEvents:subject"),
            "Jörg \"100%\"");
}

TEST(Envelopes, KnowACorrelationByItsHeader) {
  EventView event = example();
  event.headers = R"({"Correlation-Id":"018f3c1e-7b1a-7c3d-9e2f-000000000001"})";
  auto message = message_of(event, Envelope::masstransit, bindings::amqp);
  EXPECT_EQ(message.correlation_id, "018f3c1e-7b1a-7c3d-9e2f-000000000001");
  EXPECT_THAT(message.body, HasSubstr(R"("correlationId":"018f3c1e-7b1a-7c3d-9e2f-000000000001")"));
  event.headers = R"({"correlation_id":"order 7"})";
  message = message_of(event, Envelope::masstransit, bindings::amqp);
  EXPECT_EQ(message.correlation_id, "order 7");
  EXPECT_THAT(message.body, Not(HasSubstr("correlationId")));
}

TEST(Envelopes, RefuseWhatCannotBeCarried) {
  EventView event = example();
  event.type = "a\r\nb";
  for (const Envelope envelope : all_envelopes)
    for (const Binding* binding : all_bindings)
      EXPECT_EQ(refusal(event, envelope, *binding), "its type contains a control character");
  event = example();
  event.content_type = "text/plain; x=ü";
  for (const Binding* binding : all_bindings)
    EXPECT_EQ(refusal(event, Envelope::raw, *binding), "its content_type must be ASCII without a space at its ends");
  event = example();
  const std::string metadata = R"({"x":")" + std::string(63 * 1024, 'x') + "\"}";
  event.metadata = metadata;
  EXPECT_THAT(refusal(event, Envelope::cloudevents, bindings::nats), HasSubstr("at most 64512 are allowed in NATS"));
  EXPECT_EQ(refusal(event, Envelope::cloudevents_structured, bindings::nats), "");
  EXPECT_EQ(refusal(event, Envelope::cloudevents, bindings::amqp), "");
  event = example();
  event.payload = "[1]";
  EXPECT_EQ(refusal(event, Envelope::masstransit, bindings::amqp), "MassTransit carries JSON objects only");
}

// One event has one fate at every broker.
TEST(Envelopes, CarryHeadersThatAreNotAscii) {
  EventView event = example();
  event.headers = R"({"note":"Jörg 100 %","edge":" x","plain":"50 % \"as it is\"","correlation-id":"ü"})";
  event.schema_id = "schéma";
  for (const Envelope envelope : all_envelopes) {
    for (const Binding* binding : all_bindings) {
      if (envelope == Envelope::masstransit) continue;
      const Message message = message_of(event, envelope, *binding);
      EXPECT_EQ(message.headers.find("plain"), "50 % \"as it is\"");
      EXPECT_EQ(message.correlation_id, "ü");
      EXPECT_EQ(message.headers.find("note"), binding->lines ? "J%C3%B6rg%20100%20%25" : "Jörg 100 %");
      EXPECT_EQ(message.headers.find("edge"), binding->lines ? "%20x" : " x");
      const std::string listed =
          envelope == Envelope::raw ? "note, edge, correlation-id, waybill-schema-id" : "note, edge, correlation-id";
      EXPECT_EQ(message.headers.find(encoded_header), binding->lines ? listed : "");
    }
  }
  event.payload = "{}";
  EXPECT_THAT(message_of(event, Envelope::masstransit, bindings::nats).body, HasSubstr(R"("note":"Jörg 100 %")"));
}

TEST(Envelopes, LeaveNothingOfTheEventBefore) {
  for (const Envelope envelope : all_envelopes) {
    const Encoder encode = encoder(options(envelope), bindings::amqp);
    Message used, fresh;
    EventView bytes = example();
    bytes.headers = R"({"other":"header","correlation-id":"c"})";
    encode(bytes, used);
    EXPECT_EQ(encode(example(), used), "");
    EXPECT_EQ(encode(example(), fresh), "");
    EXPECT_EQ(shown(used, true), shown(fresh, true));
    EXPECT_EQ(used.correlation_id, "");
  }
}

}  // namespace
}  // namespace waybill
