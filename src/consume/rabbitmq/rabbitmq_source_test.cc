#include "waybill/rabbitmq_source.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/error.h"

#include "consume/rabbitmq/rabbitmq_link.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

RabbitmqSourceOptions good() {
  return {.url = "amqp://stock:secret@a,b:1/v", .queue = "orders"};
}

std::string refusal(const RabbitmqSourceOptions& options) {
  try {
    rabbitmq_source(options, {});
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_config, error.remedy());
    EXPECT_THAT(error.what(), Not(HasSubstr("secret")));
    return error.what();
  }
  return "";
}

TEST(RabbitmqSourceTest, OptionsThatCannotBeAreRefused) {
  EXPECT_EQ("", refusal(good()));
  const auto with = [](auto change) {
    RabbitmqSourceOptions options = good();
    change(options);
    return refusal(options);
  };
  EXPECT_THAT(with([](auto& o) { o.url = "http://x"; }), HasSubstr("url must begin"));
  EXPECT_THAT(with([](auto& o) { o.queue = ""; }), HasSubstr("queue"));
  EXPECT_THAT(with([](auto& o) { o.prefetch = 0; }), HasSubstr("prefetch"));
  EXPECT_THAT(with([](auto& o) { o.password = "another"; }), HasSubstr("password"));
  EXPECT_THAT(with([](auto& o) { o.tls_ca = "x"; }), HasSubstr("amqps://"));
  EXPECT_THAT(with([](auto& o) { o.tls_key = "x"; }), HasSubstr("go together"));
  EXPECT_THAT(with([](auto& o) { o.external = true; }), HasSubstr("external"));
  EXPECT_THAT(with([](auto& o) { o.heartbeat = 0s; }), HasSubstr("heartbeat"));
  EXPECT_THAT(with([](auto& o) { o.declare = {.on = true, .queue_type = "stream"}; }), HasSubstr("queue_type"));
  EXPECT_THAT(with([](auto& o) { o.declare = {.on = true, .bindings = {"#"}}; }), HasSubstr("declare.exchange"));
  EXPECT_THAT(with([](auto& o) { o.declare = {.on = true, .queue_type = "classic", .delivery_limit = 5}; }),
              HasSubstr("quorum"));
}

TEST(RabbitmqSourceTest, PropertiesAndHeadersAreTaken) {
  using rabbitmq::bytes_of;
  std::array<amqp_table_entry_t, 5> entries{};
  const auto set = [&](std::size_t i, std::string_view name, std::uint8_t kind) -> amqp_field_value_t& {
    entries[i].key = bytes_of(name);
    entries[i].value.kind = kind;
    return entries[i].value;
  };
  set(0, "text", AMQP_FIELD_KIND_UTF8).value.bytes = bytes_of("é");
  set(1, "x-delivery-count", AMQP_FIELD_KIND_I64).value.i64 = 4;
  set(2, "flag", AMQP_FIELD_KIND_BOOLEAN).value.boolean = 1;
  set(3, "list", AMQP_FIELD_KIND_ARRAY).value.array = {};
  set(4, "half", AMQP_FIELD_KIND_F64).value.f64 = 0.5;
  amqp_basic_properties_t properties{};
  properties._flags = AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_HEADERS_FLAG;
  properties.message_id = bytes_of("m-1");
  properties.type = bytes_of("not said");
  properties.timestamp = 1'700'000'000;
  properties.headers = {.num_entries = 5, .entries = entries.data()};
  Incoming incoming;
  rabbitmq::take_properties(incoming, properties);
  EXPECT_EQ("m-1", incoming.id);
  EXPECT_EQ("", incoming.type);
  EXPECT_EQ(Time(1'700'000'000s), incoming.timestamp);
  EXPECT_EQ(5, incoming.deliveries);
  std::string all;
  for (const Header& header : incoming.headers) all += header.name + "=" + header.value + ";";
  EXPECT_EQ("text=é;x-delivery-count=4;flag=true;half=0.5;", all);

  entries[1].value.value.i64 = std::numeric_limits<std::int64_t>::max();
  Incoming forged;
  rabbitmq::take_properties(forged, properties);
  EXPECT_EQ(1, forged.deliveries) << "whoever publishes may write anything there";
}

}  // namespace
}  // namespace waybill
