#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "waybill/error.h"

#include "broker/rabbitmq/frames.h"

namespace waybill::rabbitmq {
namespace {

using testing::HasSubstr;

// --- What a server says

std::string number(std::uint64_t value, int bytes) {
  std::string out;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xFFU);
  return out;
}

std::string frame_of(int type, int channel, const std::string& payload) {
  return number(static_cast<unsigned>(type), 1) + number(static_cast<unsigned>(channel), 2) +
         number(payload.size(), 4) + payload + static_cast<char>(AMQP_FRAME_END);
}

std::string method_of(int channel, amqp_method_number_t method, void* decoded) {
  FrameWriter writer;
  std::string out;
  writer.append_method(out, static_cast<amqp_channel_t>(channel), method, decoded);
  return out;
}

std::string deliver() {
  amqp_basic_deliver_t deliver{};
  deliver.delivery_tag = 1;
  deliver.routing_key = bytes_of("k");
  return method_of(1, AMQP_BASIC_DELIVER_METHOD, &deliver);
}

std::string header(std::uint64_t body_size, const std::string& properties = std::string(2, '\0'), int klass = 60) {
  return frame_of(AMQP_FRAME_HEADER, 1,
                  number(static_cast<unsigned>(klass), 2) + number(0, 2) + number(body_size, 8) + properties);
}

std::string body(const std::string& text, int channel = 1) {
  return frame_of(AMQP_FRAME_BODY, channel, text);
}

std::string ack(int channel = 1) {
  amqp_basic_ack_t ack{};
  return method_of(channel, AMQP_BASIC_ACK_METHOD, &ack);
}

// Arrays within arrays within a table of headers.
std::string nested(int depth) {
  std::string inner;
  for (int i = 0; i < depth; ++i) inner = "A" + number(inner.size(), 4) + inner;
  const std::string table = number(1, 1) + "k" + inner;
  return number(AMQP_BASIC_HEADERS_FLAG, 2) + number(table.size(), 4) + table;
}

// --- What is read of it

using Take = std::function<void(const amqp_frame_t&)>;

void read(std::string_view bytes, std::size_t piece, const Take& take, bool logged_in = true) {
  FrameReader reader;
  if (logged_in) {
    reader.allow(4096);
    reader.allow_channel();
  }
  amqp_frame_t frame{};
  while (!bytes.empty()) {
    const auto room = reader.room();
    const auto part = bytes.substr(0, std::min(piece, room.size()));
    std::copy(part.begin(), part.end(), room.begin());
    reader.filled(part.size());
    bytes.remove_prefix(part.size());
    while (reader.next(frame)) take(frame);
  }
}

std::string refusal(const std::string& bytes, bool logged_in = true) {
  try {
    read(
        bytes, 1'000'000, [](const amqp_frame_t&) {}, logged_in);
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::retry, error.remedy());
    return error.what();
  }
  return "";
}

TEST(FrameReaderTest, WhatIsNoAmqpIsSaidToBeNone) {
  EXPECT_THAT(refusal("HTTP/1.1 400 Bad Request\r\n\r\n", false), HasSubstr("is the port right?"));
  EXPECT_THAT(refusal(std::string("AMQP\0\0\x09\x01", 8), false), HasSubstr("no known type"));
}

TEST(FrameReaderTest, BeforeLoginThereIsOnlyChannel0) {
  EXPECT_THAT(refusal(ack(), false), HasSubstr("channel 1, which is not open"));
  EXPECT_THAT(refusal(ack(2)), HasSubstr("channel 2, which is not open"));
}

TEST(FrameReaderTest, AMethodIsRefusedOnAnotherChannelThanItsOwn) {
  amqp_connection_close_t close{};
  EXPECT_THAT(refusal(ack(0)), HasSubstr("60.80 does not belong on channel 0"));
  EXPECT_THAT(refusal(method_of(1, AMQP_CONNECTION_CLOSE_METHOD, &close)), HasSubstr("does not belong on channel 1"));
  amqp_basic_publish_t publish{};
  EXPECT_THAT(refusal(method_of(1, AMQP_BASIC_PUBLISH_METHOD, &publish)), HasSubstr("does not belong"));
  EXPECT_EQ("", refusal(ack()));
}

TEST(FrameReaderTest, AFrameThatIsTooSmallForItsTypeIsRefused) {
  for (int size = 0; size < 4; ++size)
    EXPECT_THAT(refusal(frame_of(AMQP_FRAME_METHOD, 1, std::string(static_cast<std::size_t>(size), '\0'))),
                HasSubstr("no method"));
  for (const std::size_t size : {0, 2, 11, 13})
    EXPECT_THAT(refusal(deliver() + frame_of(AMQP_FRAME_HEADER, 1, std::string(size, '\0'))), HasSubstr("not whole"));
  EXPECT_THAT(refusal(frame_of(AMQP_FRAME_METHOD, 1, number(AMQP_BASIC_ACK_METHOD, 4))), HasSubstr("AMQP"))
      << "its arguments are missing";
  EXPECT_THAT(refusal(frame_of(AMQP_FRAME_HEARTBEAT, 0, "x")), HasSubstr("heartbeat"));
}

TEST(FrameReaderTest, Security45_AFrameThatIsTooLargeIsRefusedBeforeItIsThere) {
  EXPECT_THAT(refusal(std::string("\x03\x00\x01\x7F\xFF\xFF\xFF", 7)), HasSubstr("larger than the 4096 bytes"));
  EXPECT_THAT(refusal(deliver() + header(5000) + body(std::string(4089, 'x'))),
              HasSubstr("larger than the 4096 bytes"));
  EXPECT_EQ("", refusal(deliver() + header(5000) + body(std::string(4088, 'x'))));
}

TEST(FrameReaderTest, TheFramesOfAMessageMustBeInOrder) {
  EXPECT_THAT(refusal(header(1)), HasSubstr("not in their order"));
  EXPECT_THAT(refusal(body("x")), HasSubstr("not in their order"));
  EXPECT_THAT(refusal(deliver() + body("x")), HasSubstr("not in their order"));
  EXPECT_THAT(refusal(deliver() + ack()), HasSubstr("not in their order"));
  EXPECT_THAT(refusal(deliver() + header(2) + body("x") + ack()), HasSubstr("not in their order"));
  EXPECT_THAT(refusal(deliver() + header(2) + body("xyz")), HasSubstr("larger than its header says"));
  EXPECT_THAT(refusal(deliver() + header(1, std::string(2, '\0'), 10)), HasSubstr("another class"));
  EXPECT_THAT(refusal(body("x", 0)), HasSubstr("channel 0 has no messages"));
  EXPECT_EQ("", refusal(deliver() + header(0) + deliver() + header(2) + body("x") +
                        frame_of(AMQP_FRAME_HEARTBEAT, 0, "") + body("y") + ack()));
}

TEST(FrameReaderTest, Security45_PropertiesThatCannotBeDecodedAreNull) {
  const auto decodes = [](const std::string& properties) {
    bool good = false;
    read(deliver() + header(0, properties), 1'000'000, [&](const amqp_frame_t& frame) {
      if (frame.frame_type == AMQP_FRAME_HEADER) good = frame.payload.properties.decoded != nullptr;
    });
    return good;
  };
  EXPECT_TRUE(decodes(std::string(2, '\0')));
  EXPECT_TRUE(decodes(nested(FrameReader::table_depth_max - 1)));
  EXPECT_FALSE(decodes(nested(FrameReader::table_depth_max)));
  EXPECT_FALSE(decodes(nested(700))) << "a frame's worth";
  EXPECT_FALSE(decodes(number(AMQP_BASIC_HEADERS_FLAG, 2) + number(100, 4))) << "the table is cut off";
  EXPECT_FALSE(decodes(number(AMQP_BASIC_CONTENT_TYPE_FLAG, 2) + "\x50")) << "the text is cut off";
}

RC_GTEST_PROP(FrameReaderProperty, MessagesAreReadAsTheyWereSentHoweverTheyAreCut, ()) {
  const auto text =
      *rc::gen::container<std::string>(*rc::gen::inRange<std::size_t>(0, 20'000), rc::gen::arbitrary<char>());
  const auto part = *rc::gen::inRange<std::size_t>(1, 4089);
  std::string bytes = deliver() + header(text.size());
  for (std::size_t at = 0; at < text.size(); at += part) bytes += body(text.substr(at, part));
  std::string bodies;
  read(bytes + bytes, *rc::gen::inRange<std::size_t>(1, 9000), [&](const amqp_frame_t& frame) {
    if (frame.frame_type == AMQP_FRAME_BODY) bodies += text_of(frame.payload.body_fragment);
  });
  RC_ASSERT(bodies == text + text);
}

// Any one byte may be wrong: it is read, or refused.
RC_GTEST_PROP(FrameReaderProperty, ADamagedByteIsReadOrRefused, ()) {
  std::string bytes = deliver() + header(2, nested(3)) + body("xy") + ack();
  bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
  refusal(bytes);
}

}  // namespace
}  // namespace waybill::rabbitmq
