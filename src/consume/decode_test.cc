#include "consume/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/time_text.h"
#include "message/binding.h"
#include "message/envelope.h"

namespace waybill::consume {
namespace {

using testing::HasSubstr;

constexpr std::string_view id = "018f3c1e-7b1a-7c3d-9e2f-0123456789ab";

EventView example() {
  return {
      .seq = 42,
      .id = *EventId::parse(id),
      .tenant = "north",
      .topic = "patients",
      .type = "patient.checked-in",
      .aggregate_type = "visit",
      .aggregate_id = "v-7",
      .version = 3,
      .payload = R"({"visit":"v-7",  "name":"Jörg", "fee":1.10})",
      .content_type = "application/json",
      .metadata = R"({"user":"reception"})",
      .headers = R"({"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","correlation-id":"c-1"})",
      .schema_id = "https://example.org/schemas/check-in",
      .schema_version = 2,
      .occurred_at = *parse_rfc3339("2026-02-19T08:30:00.123456Z"),
      .created_at = *parse_rfc3339("2026-02-19T08:30:00.25Z")};
}

// As the broker brings it.
Incoming sent(const EventView& event, Envelope envelope, const Binding& binding) {
  EnvelopeOptions options{.envelope = envelope, .source = "/clinic"};
  if (envelope == Envelope::masstransit) options.message_types.emplace_back("urn:message:Clinic.Events:{type:pascal}");
  Message message;
  EXPECT_EQ("", encoder(options, binding)(event, message));
  Incoming incoming{.body = message.body, .address = "clinic.patients"};
  for (std::size_t i = 0; i < message.headers.size(); ++i)
    incoming.headers.push_back({std::string(message.headers[i].name), std::string(message.headers[i].value)});
  incoming.id = message.id;
  if (binding.lines) {
    if (!binding.content_type.empty()) incoming.content_type = message.headers.find(binding.content_type);
  } else {
    incoming.type = message.type;
    incoming.content_type = message.content_type;
    incoming.correlation_id = message.correlation_id;
    incoming.timestamp = std::chrono::floor<std::chrono::seconds>(message.timestamp);
  }
  return incoming;
}

Delivery arrived(Incoming incoming, MessageForm form = MessageForm::automatic) {
  return decode(incoming, form);
}

std::string refusal(Incoming incoming, MessageForm form = MessageForm::automatic) {
  try {
    decode(incoming, form);
  } catch (const Rejection& rejection) {
    return rejection.what();
  }
  return "it was read";
}

struct Way {
  std::string name{};
  Envelope envelope{};
  const Binding* binding = nullptr;
};

class DecodeTest : public testing::TestWithParam<Way> {
 protected:
  bool is(Envelope envelope) const { return GetParam().envelope == envelope; }
  Delivery there_and_back(const EventView& event) const {
    return arrived(sent(event, GetParam().envelope, *GetParam().binding));
  }
};

INSTANTIATE_TEST_SUITE_P(Envelopes, DecodeTest,
                         testing::Values(Way{"binary_amqp", Envelope::cloudevents, &bindings::amqp},
                                         Way{"binary_underscore", Envelope::cloudevents, &bindings::amqp_underscore},
                                         Way{"binary_nats", Envelope::cloudevents, &bindings::nats},
                                         Way{"structured_amqp", Envelope::cloudevents_structured, &bindings::amqp},
                                         Way{"structured_nats", Envelope::cloudevents_structured, &bindings::nats},
                                         Way{"waybill_amqp", Envelope::waybill, &bindings::amqp},
                                         Way{"waybill_nats", Envelope::waybill, &bindings::nats},
                                         Way{"raw_amqp", Envelope::raw, &bindings::amqp},
                                         Way{"raw_nats", Envelope::raw, &bindings::nats},
                                         Way{"masstransit_amqp", Envelope::masstransit, &bindings::amqp},
                                         Way{"masstransit_nats", Envelope::masstransit, &bindings::nats}),
                         [](const auto& way) { return way.param.name; });

TEST_P(DecodeTest, WhatEveryEnvelopeTells) {
  const EventView event = example();
  const Delivery delivery = there_and_back(event);
  EXPECT_EQ(id, delivery.id);
  EXPECT_EQ(event.id, delivery.event.id);
  EXPECT_EQ(event.payload, delivery.event.payload) << "byte for byte";
  EXPECT_TRUE(delivery.event.payload_is_json);
  EXPECT_EQ("clinic.patients", delivery.address);
  EXPECT_EQ(event.schema_id, delivery.event.schema_id);
  EXPECT_EQ(2, delivery.event.schema_version);
  const EventContext context = context_of(delivery);
  EXPECT_EQ("c-1", context.correlation_id);
  EXPECT_EQ(id, context.causation_id);
  EXPECT_EQ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", context.traceparent);
}

TEST_P(DecodeTest, WhatSomeTell) {
  const bool in_lines = GetParam().binding->lines;
  const bool cloudevents = is(Envelope::cloudevents) || is(Envelope::cloudevents_structured);
  const Delivery delivery = there_and_back(example());
  const RecordedEvent& event = delivery.event;
  EXPECT_EQ(cloudevents ? "patients" : "clinic.patients", event.topic) << "else where it came";
  EXPECT_EQ(cloudevents ? "north" : "default", event.stream.tenant);
  if (cloudevents || is(Envelope::waybill)) {
    EXPECT_EQ("visit", event.stream.type);
    EXPECT_EQ("v-7", event.stream.id);
    EXPECT_EQ(3, event.version);
    EXPECT_EQ("visit/v-7", delivery.key);
    EXPECT_EQ(example().occurred_at, event.occurred_at);
  } else {
    EXPECT_EQ(std::nullopt, delivery.key);
    EXPECT_EQ(0, event.version);
  }
  if (!is(Envelope::raw)) {
    EXPECT_EQ(example().metadata, event.metadata);
  }
  if (is(Envelope::raw) && in_lines) {
    EXPECT_EQ("clinic.patients", event.type) << "nothing else tells it";
  } else if (is(Envelope::masstransit) && in_lines) {
    EXPECT_EQ("urn:message:Clinic.Events:PatientCheckedIn", event.type);
  } else {
    EXPECT_EQ("patient.checked-in", event.type);
  }
}

TEST_P(DecodeTest, BytesComeAsTheyWere) {
  if (is(Envelope::masstransit)) return;  // It carries JSON only.
  EventView event = example();
  const std::string bytes("\0\xFF\x80{\r\n", 7);
  event.payload = bytes;
  event.payload_is_json = false;
  event.content_type = "application/octet-stream";
  const Delivery delivery = there_and_back(event);
  EXPECT_EQ(bytes, delivery.event.payload);
  EXPECT_FALSE(delivery.event.payload_is_json);
  EXPECT_EQ("application/octet-stream", delivery.content_type);
}

TEST_P(DecodeTest, NullIsAPayloadToo) {
  if (is(Envelope::masstransit)) return;  // It carries objects only.
  EventView event = example();
  event.payload = "null";
  const Delivery delivery = there_and_back(event);
  EXPECT_EQ("null", delivery.event.payload);
  EXPECT_TRUE(delivery.event.payload_is_json);
  EXPECT_EQ(id, delivery.id);
}

TEST_P(DecodeTest, AKeyOfItsOwnIsToldWhereTheAggregateIs) {
  EventView event = example();
  event.key = "customer-9";
  const bool tells = !is(Envelope::raw) && !is(Envelope::masstransit);
  EXPECT_EQ(tells ? std::optional<std::string>("customer-9") : std::nullopt, there_and_back(event).key);
}

TEST_P(DecodeTest, AnEventOfItsOwnKeyHasNoOrder) {
  EventView event = example();
  event.aggregate_type = event.aggregate_id = {};
  event.version.reset();
  const Delivery delivery = there_and_back(event);
  const bool cloudevents = is(Envelope::cloudevents) || is(Envelope::cloudevents_structured);
  EXPECT_EQ(cloudevents ? std::optional<std::string>("") : std::nullopt, delivery.key);
}

// --- Others' messages

TEST(DecodeForeignTest, AJsonObjectOfOnesOwnIsRaw) {
  const Delivery delivery = arrived({.id = "m-1", .content_type = "application/json", .body = R"({"id":"x"})"});
  EXPECT_EQ("m-1", delivery.id);
  EXPECT_EQ(EventId{}, delivery.event.id);
  EXPECT_EQ(R"({"id":"x"})", delivery.event.payload);
  const std::string half = R"({"\uD800":1})";
  EXPECT_EQ(half, arrived({.id = "m-2", .body = half}).event.payload);
}

TEST(DecodeForeignTest, RawIsRawIfOneSaysSo) {
  Incoming incoming = sent(example(), Envelope::waybill, bindings::amqp);
  const std::string body = incoming.body;
  EXPECT_EQ(body, arrived(incoming, MessageForm::raw).event.payload);
  EXPECT_EQ("visit", arrived(incoming, MessageForm::waybill).event.stream.type);
}

TEST(DecodeForeignTest, ACloudEventOfAnotherTellsNoKeyUnlessItDoes) {
  Incoming incoming{.headers = {{"cloudEvents_specversion", "1.0"},
                                {"cloudEvents_id", "e/1"},
                                {"cloudEvents_type", "t"},
                                {"cloudEvents_source", "/x"}},
                    .body = "hello"};
  Delivery delivery = arrived(incoming);
  EXPECT_EQ("/x e/1", delivery.id) << "another source may have one with that id";
  EXPECT_EQ(std::nullopt, delivery.key);
  EXPECT_FALSE(delivery.event.payload_is_json);
  incoming.headers.push_back({"cloudEvents_sequence", "7"});
  EXPECT_EQ(std::nullopt, arrived(incoming).key) << "that is not our log's";
  incoming.headers.push_back({"cloudEvents_partitionkey", "k"});
  EXPECT_EQ("k", arrived(incoming).key);
}

TEST(DecodeForeignTest, DataOfAStructuredCloudEvent) {
  const auto structured = [](const std::string& data) {
    return arrived({.content_type = "application/cloudevents+json",
                    .body = R"({"specversion":"1.0","id":"1","source":"/x","type":"t")" + data + "}"})
        .event;
  };
  EXPECT_EQ("null", structured(R"(,"data":null)").payload);
  EXPECT_TRUE(structured(R"(,"data":null)").payload_is_json);
  EXPECT_EQ(R"("hello")", structured(R"(,"data":"hello")").payload);
  EXPECT_EQ("hello", structured(R"(,"datacontenttype":"text/plain","data":"hello")").payload);
  EXPECT_FALSE(structured(R"(,"datacontenttype":"text/plain","data":"hello")").payload_is_json);
  EXPECT_EQ("", structured("").payload);
  EXPECT_FALSE(structured("").payload_is_json);
}

// What no header can carry would keep what follows from the message from being sent.
TEST(DecodeForeignTest, AContextThatNobodyCanCarryIsNotTaken) {
  const auto correlation = [](std::string text) {
    return context_of(arrived({.id = "m-1", .correlation_id = std::move(text), .body = "1"})).correlation_id;
  };
  EXPECT_EQ("order 7", correlation("order 7"));
  EXPECT_EQ("", correlation("Bestellung-ä"));
  EXPECT_EQ("", correlation("a\tb"));
  EXPECT_EQ("", correlation(std::string(20'000, 'x')));
}

TEST(DecodeForeignTest, WhatCannotBeReadIsRefusedWithoutAWordOfIt) {
  EXPECT_THAT(refusal({.body = "secret"}), HasSubstr("it has no id"));
  EXPECT_THAT(refusal({.id = std::string(513, 'x')}), HasSubstr("512 bytes"));
  EXPECT_THAT(refusal({.id = "\xFF"}), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal({.id = "m", .body = "secret"}, MessageForm::waybill), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal({.id = "m", .body = R"({"secret":1})"}, MessageForm::waybill), HasSubstr("lacks members"));
  const auto structured = [](std::string body) {
    return refusal({.content_type = "application/cloudevents+json; charset=utf-8", .body = std::move(body)});
  };
  EXPECT_THAT(structured("secret"), HasSubstr("not a JSON object"));
  EXPECT_THAT(structured("{}"), HasSubstr("no CloudEvent"));
  EXPECT_THAT(structured(R"({"\uD800":1})"), HasSubstr("not a JSON object"));
  EXPECT_THAT(structured(R"({"specversion":"1.0","id":"1","type":"t","time":"secret"})"), HasSubstr("no time"));
  EXPECT_THAT(structured(R"({"specversion":"1.0","id":"1","type":"t","data_base64":"*"})"), HasSubstr("no base64"));
  EXPECT_THAT(structured(R"({"specversion":"1.0","id":"1","type":"t","metadata":"secret"})"), HasSubstr("metadata"));
  EXPECT_THAT(structured(R"({"specversion":"1.0","id":"\uD800","type":"t"})"), HasSubstr("no text"));
  EXPECT_THAT(refusal({.content_type = "application/vnd.masstransit+json", .body = "{}"}), HasSubstr("MassTransit"));
  EXPECT_THAT(refusal({.headers = {{"ce-specversion", "1.0"}, {"ce-id", "%G1"}}}), HasSubstr("no two digits"));
  EXPECT_THAT(refusal({.id = "m", .headers = {{"waybill-schema-version", "x"}}}), HasSubstr("no number"));
}

}  // namespace
}  // namespace waybill::consume
