#include "broker/rabbitmq/frames.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/assert.h"

namespace waybill::rabbitmq {
namespace {

constexpr std::size_t read_bytes = std::size_t{64} * 1024;
constexpr std::size_t frame_overhead = 8;
constexpr std::size_t short_text_max = 255;

template <typename Number>
void append_number(std::string& out, Number number) {
  for (int shift = static_cast<int>(sizeof number) * 8 - 8; shift >= 0; shift -= 8)
    out += static_cast<char>(static_cast<std::uint8_t>(number >> static_cast<unsigned>(shift)));
}

void append_short_text(std::string& out, std::string_view text) {
  WAYBILL_ASSERT(text.size() <= short_text_max);
  append_number(out, static_cast<std::uint8_t>(text.size()));
  out += text;
}

// The codec would cut a length of more than 255 in silence.
std::string too_long(const Message& message) {
  constexpr std::string_view rule = "has more than 255 bytes, which AMQP 0-9-1 cannot carry";
  if (message.content_type.size() > short_text_max) return fmt::format("its content type {}", rule);
  if (message.type.size() > short_text_max) return fmt::format("its type {}", rule);
  if (message.correlation_id.size() > short_text_max) return fmt::format("its correlation id {}", rule);
  for (std::size_t i = 0; i < message.headers.size(); ++i)
    if (message.headers[i].name.size() > short_text_max) return fmt::format("the name of one of its headers {}", rule);
  return {};
}

}  // namespace

amqp_bytes_t bytes_of(std::string_view text) {
  return {.len = text.size(), .bytes = const_cast<char*>(text.data())};
}

std::string_view text_of(amqp_bytes_t bytes) {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}

// --- Writing

void FrameWriter::append_frame(std::string& out, std::uint8_t type, amqp_channel_t channel,
                               std::string_view payload) const {
  append_number(out, type);
  append_number(out, channel);
  append_number(out, static_cast<std::uint32_t>(payload.size()));
  out += payload;
  append_number(out, static_cast<std::uint8_t>(AMQP_FRAME_END));
}

void FrameWriter::append_heartbeat(std::string& out) const {
  append_frame(out, AMQP_FRAME_HEARTBEAT, 0, {});
}

void FrameWriter::append_method(std::string& out, amqp_channel_t channel, amqp_method_number_t method, void* decoded) {
  std::string payload;
  append_number(payload, method);
  const int size =
      amqp_encode_method(method, decoded, {.len = buffer_.size() - frame_overhead, .bytes = buffer_.data()});
  if (size < 0)
    throw Error(Remedy::fix_config,
                fmt::format("the request does not fit: {}; use shorter names", amqp_error_string2(size)));
  payload.append(buffer_.data(), static_cast<std::size_t>(size));
  append_frame(out, AMQP_FRAME_METHOD, channel, payload);
}

std::string FrameWriter::append_message(std::string& out, amqp_channel_t channel, std::string_view exchange,
                                        std::string_view routing_key, const Message& message) {
  if (std::string problem = too_long(message); !problem.empty()) return problem;
  const std::size_t start = out.size();
  constexpr std::uint8_t mandatory = 1;
  append_number(out, std::uint8_t{AMQP_FRAME_METHOD});
  append_number(out, channel);
  append_number(out, static_cast<std::uint32_t>(4 + 2 + 1 + exchange.size() + 1 + routing_key.size() + 1));
  append_number(out, std::uint32_t{AMQP_BASIC_PUBLISH_METHOD});
  append_number(out, std::uint16_t{0});
  append_short_text(out, exchange);
  append_short_text(out, routing_key);
  append_number(out, mandatory);
  append_number(out, static_cast<std::uint8_t>(AMQP_FRAME_END));
  if (std::string problem = append_properties(out, channel, message); !problem.empty()) {
    out.resize(start);
    return problem;
  }
  const std::string_view body = message.body;
  const std::size_t most = buffer_.size() - frame_overhead;
  for (std::size_t at = 0; at < body.size(); at += most)
    append_frame(out, AMQP_FRAME_BODY, channel, body.substr(at, most));
  return {};
}

std::string FrameWriter::append_properties(std::string& out, amqp_channel_t channel, const Message& message) {
  headers_.clear();
  for (std::size_t i = 0; i < message.headers.size(); ++i) {
    const HeaderList::Item header = message.headers[i];
    amqp_table_entry_t entry{};
    entry.key = bytes_of(header.name);
    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = bytes_of(header.value);
    headers_.push_back(entry);
  }
  amqp_basic_properties_t properties{};
  properties._flags =
      AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_APP_ID_FLAG;
  properties.delivery_mode = AMQP_DELIVERY_PERSISTENT;
  properties.message_id = bytes_of(message.id);
  properties.timestamp = static_cast<std::uint64_t>(std::max<std::int64_t>(
      std::chrono::floor<std::chrono::seconds>(message.timestamp).time_since_epoch().count(), 0));
  properties.app_id = bytes_of("waybill");
  const auto set = [&](amqp_flags_t flag, amqp_bytes_t& property, const std::string& text) {
    if (text.empty()) return;
    properties._flags |= flag;
    property = bytes_of(text);
  };
  set(AMQP_BASIC_CONTENT_TYPE_FLAG, properties.content_type, message.content_type);
  set(AMQP_BASIC_TYPE_FLAG, properties.type, message.type);
  set(AMQP_BASIC_CORRELATION_ID_FLAG, properties.correlation_id, message.correlation_id);
  if (!headers_.empty()) {
    properties._flags |= AMQP_BASIC_HEADERS_FLAG;
    properties.headers = {.num_entries = static_cast<int>(headers_.size()), .entries = headers_.data()};
  }
  constexpr std::size_t header_overhead = 12;
  const int size =
      amqp_encode_properties(AMQP_BASIC_CLASS, &properties,
                             {.len = buffer_.size() - frame_overhead - header_overhead, .bytes = buffer_.data()});
  if (size < 0)
    return fmt::format("its headers do not fit into a frame of {} bytes, the largest that the broker takes",
                       buffer_.size());
  append_number(out, std::uint8_t{AMQP_FRAME_HEADER});
  append_number(out, channel);
  append_number(out, static_cast<std::uint32_t>(header_overhead + static_cast<std::size_t>(size)));
  append_number(out, std::uint16_t{AMQP_BASIC_CLASS});
  append_number(out, std::uint16_t{0});
  append_number(out, static_cast<std::uint64_t>(message.body.size()));
  out.append(buffer_.data(), static_cast<std::size_t>(size));
  append_number(out, static_cast<std::uint8_t>(AMQP_FRAME_END));
  return {};
}

// --- Reading

FrameReader::FrameReader() : codec_(amqp_new_connection(), amqp_destroy_connection), buffer_(read_bytes) {
  if (!codec_) throw std::bad_alloc();
}

void FrameReader::allow(std::size_t frame_bytes_max) {
  if (amqp_tune_connection(codec_.get(), 0, static_cast<int>(frame_bytes_max), 0) != AMQP_STATUS_OK)
    throw std::bad_alloc();
}

void FrameReader::filled(std::size_t count) {
  WAYBILL_ASSERT(at_ == end_ && count <= buffer_.size());
  at_ = 0;
  end_ = count;
}

bool FrameReader::next(amqp_frame_t& frame) {
  amqp_maybe_release_buffers(codec_.get());
  while (at_ < end_) {
    const int used = amqp_handle_input(codec_.get(), {.len = end_ - at_, .bytes = buffer_.data() + at_}, &frame);
    if (used < 0)
      throw Error(Remedy::retry,
                  fmt::format("it does not speak AMQP 0-9-1: {}; is the port right?", amqp_error_string2(used)));
    at_ += static_cast<std::size_t>(used);
    if (frame.frame_type != 0) return true;
  }
  return false;
}

}  // namespace waybill::rabbitmq
