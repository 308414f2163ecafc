#include "broker/rabbitmq/frames.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace waybill::rabbitmq {
namespace {

using testing::HasSubstr;

Message sample() {
  Message message;
  message.body = "{}";
  message.content_type = "application/json";
  message.id = "018f3c1e-7b1a-7c3d-9e2f-0123456789ab";
  message.type = "order.paid";
  message.timestamp = Time(std::chrono::seconds(1'700'000'000));
  message.headers.add("a", "1");
  return message;
}

// What a broker would read: the frames, and the message they are.
struct Read {
  std::vector<int> types{};
  std::string exchange{};
  std::string routing_key{};
  bool mandatory = false;
  int delivery_mode = 0;
  std::string id{};
  std::string headers{};
  std::uint64_t body_size = 0;
  std::string body{};
};

void take(const amqp_frame_t& frame, Read& read) {
  read.types.push_back(frame.frame_type);
  if (frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_BASIC_PUBLISH_METHOD) {
    const auto& publish = *static_cast<const amqp_basic_publish_t*>(frame.payload.method.decoded);
    read.exchange = text_of(publish.exchange);
    read.routing_key = text_of(publish.routing_key);
    read.mandatory = publish.mandatory != 0;
  } else if (frame.frame_type == AMQP_FRAME_HEADER) {
    const auto& properties = *static_cast<const amqp_basic_properties_t*>(frame.payload.properties.decoded);
    read.body_size = frame.payload.properties.body_size;
    read.delivery_mode = properties.delivery_mode;
    read.id = text_of(properties.message_id);
    for (int i = 0; i < properties.headers.num_entries; ++i)
      read.headers += std::string(text_of(properties.headers.entries[i].key)) + "=" +
                      std::string(text_of(properties.headers.entries[i].value.value.bytes)) + ";";
  } else if (frame.frame_type == AMQP_FRAME_BODY) {
    read.body += text_of(frame.payload.body_fragment);
  }
}

// As a broker reads it: by the library's own connection.
Read read_back(std::string_view bytes, std::size_t frame_max = 131'072) {
  const std::unique_ptr<amqp_connection_state_t_, int (*)(amqp_connection_state_t)> broker(amqp_new_connection(),
                                                                                           amqp_destroy_connection);
  Read read;
  while (!bytes.empty()) {
    amqp_frame_t frame{};
    amqp_maybe_release_buffers(broker.get());
    const int used = amqp_handle_input(broker.get(), bytes_of(bytes), &frame);
    EXPECT_GT(used, 0);
    if (used <= 0) break;
    bytes.remove_prefix(static_cast<std::size_t>(used));
    if (frame.frame_type == 0) continue;
    take(frame, read);
    if (read.types.size() == 1) {
      EXPECT_EQ(AMQP_STATUS_OK, amqp_tune_connection(broker.get(), 0, static_cast<int>(frame_max), 0));
    }
  }
  return read;
}

TEST(FramesTest, AMessageIsPersistentAndMandatory) {
  FrameWriter writer;
  std::string out;
  EXPECT_EQ("", writer.append_message(out, 1, "clinic", "order.paid", sample()));
  const Read read = read_back(out);
  EXPECT_EQ("clinic", read.exchange);
  EXPECT_EQ("order.paid", read.routing_key);
  EXPECT_TRUE(read.mandatory);
  EXPECT_EQ(2, read.delivery_mode);
  EXPECT_EQ("018f3c1e-7b1a-7c3d-9e2f-0123456789ab", read.id);
  EXPECT_EQ("a=1;", read.headers);
  EXPECT_EQ("{}", read.body);
}

TEST(FramesTest, AnEmptyBodyHasNoFrame) {
  FrameWriter writer;
  std::string out;
  Message message = sample();
  message.body.clear();
  EXPECT_EQ("", writer.append_message(out, 1, "", "", message));
  EXPECT_EQ((std::vector<int>{AMQP_FRAME_METHOD, AMQP_FRAME_HEADER}), read_back(out).types);
}

TEST(FramesTest, WhatCannotBeCarriedIsSaidAndLeavesNothingBehind) {
  FrameWriter writer;
  std::string out = "before";
  Message message = sample();
  message.content_type = std::string(256, 'x');
  EXPECT_THAT(writer.append_message(out, 1, "", "", message), HasSubstr("content type has more than 255 bytes"));
  message = sample();
  message.headers.add(std::string(256, 'x'), "1");
  EXPECT_THAT(writer.append_message(out, 1, "", "", message), HasSubstr("name of one of its headers"));
  message = sample();
  message.headers.add("large", std::string(5000, 'x'));
  EXPECT_THAT(writer.append_message(out, 1, "", "", message), HasSubstr("do not fit into a frame of 4096 bytes"));
  EXPECT_EQ("before", out);
}

RC_GTEST_PROP(FramesProperty, AnyMessageIsReadAsItWasWritten, ()) {
  const auto frame_max = *rc::gen::inRange<std::size_t>(4096, 10'000);
  Message message = sample();
  message.body =
      *rc::gen::container<std::string>(*rc::gen::inRange<std::size_t>(0, 30'000), rc::gen::arbitrary<char>());
  FrameWriter writer;
  writer.allow(frame_max);
  std::string out;
  const int count = *rc::gen::inRange(1, 4);
  for (int i = 0; i < count; ++i) RC_ASSERT(writer.append_message(out, 1, "e", "k", message).empty());
  const Read read = read_back(out, frame_max);
  RC_ASSERT(read.body_size == message.body.size());
  std::string expected;
  for (int i = 0; i < count; ++i) expected += message.body;
  RC_ASSERT(read.body == expected);
}

}  // namespace
}  // namespace waybill::rabbitmq
