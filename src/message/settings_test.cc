#include "message/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_test.h"

namespace waybill {
namespace {

using testing::HasSubstr;

class MessageSettings : public config::ConfigFiles {
 protected:
  // What reading all keys of a destination comes to.
  std::string read(const std::string& toml) {
    write(toml);
    config::Config config = load();
    config::Section section = config.root();
    binding_ = &read_amqp_binding(section);
    encoder_ = read_encoder(section, *binding_);
    const Address address = read_address(section, "routing_key", "{topic}", addresses::routing_key, "Where to");
    refusal_ = address.resolve(address_, event_);
    return problems(config);
  }

  EventView event_{.topic = "orders",
                   .type = "order.paid",
                   .aggregate_type = "order",
                   .payload = "{}",
                   .content_type = "application/json"};
  const Binding* binding_ = nullptr;
  Encoder encoder_;
  std::string address_, refusal_;
  Message message_;
};

TEST_F(MessageSettings, HaveDefaults) {
  EXPECT_EQ(read(""), "none");
  EXPECT_EQ(binding_, &bindings::amqp);
  EXPECT_EQ(address_, "orders");
  EXPECT_EQ(encoder_(event_, message_), "");
  EXPECT_EQ(message_.headers.find("cloudEvents:source"), "/waybill");
}

TEST_F(MessageSettings, AreTaken) {
  EXPECT_EQ(read("envelope = \"masstransit\"\nmessage_type = [\"urn:message:A:{type:pascal}\", \"urn:message:A:Any\"]\n"
                 "routing_key = \"{aggregate_type}.{type}\"\nattribute_names = \"cloudEvents_\"\n"),
            "none");
  EXPECT_EQ(binding_, &bindings::amqp_underscore);
  EXPECT_EQ(address_, "order.order.paid");
  EXPECT_EQ(encoder_(event_, message_), "");
  EXPECT_THAT(message_.body, HasSubstr(R"("messageType":["urn:message:A:OrderPaid","urn:message:A:Any"])"));
}

TEST_F(MessageSettings, ThatAreWrongAreAllNamed) {
  const std::string said = read("source = \"a b\"\nrouting_key = \"{tpye}\"\nattribute_names = \"ce-\"\n");
  EXPECT_THAT(said, HasSubstr("source"));
  EXPECT_THAT(said, HasSubstr("must be a URI"));
  EXPECT_THAT(said, HasSubstr("at character 2: unknown field 'tpye'; did you mean 'type'?"));
  EXPECT_THAT(said, HasSubstr("attribute_names"));
  EXPECT_THAT(read("envelope = \"masstransit\"\n"), HasSubstr("message_type: is missing; name the type"));
  EXPECT_THAT(read("envelope = \"masstransit\"\nmessage_type = \"{x}\"\n"), HasSubstr("unknown field 'x'"));
  EXPECT_THAT(read("envelope = \"raw\"\nsource = \"/x\"\n"), HasSubstr("source"));
}

}  // namespace
}  // namespace waybill
