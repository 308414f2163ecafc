#include "broker/rabbitmq/frames.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/assert.h"

namespace waybill::rabbitmq {
namespace {

constexpr std::size_t frame_header_bytes = 7;  // Type, channel and size.
constexpr std::size_t frame_overhead = frame_header_bytes + 1;
constexpr std::size_t method_bytes = 4;
constexpr std::size_t content_header_bytes = 12;  // Class, weight and size of the body.
constexpr std::size_t flags_bytes = 2;
constexpr std::size_t size_bytes = 4;  // Of a table, an array or a long text.
constexpr std::size_t pool_page_bytes = 4096;
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

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Remedy::retry, fmt::format("it does not speak AMQP 0-9-1: {}; is the port right?", why));
}

void check(int status) {
  if (status < 0) refuse(amqp_error_string2(status));
}

// REQUIRES: so many bytes are there
template <typename Number>
Number number_at(std::string_view bytes, std::size_t at) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) number = number << 8U | static_cast<std::uint8_t>(bytes[at + i]);
  return static_cast<Number>(number);
}

// The methods that a server may send to us: of the connection on channel 0, all others on channel 1.
bool may_come(amqp_method_number_t method, amqp_channel_t channel) {
  constexpr std::array of_connection{AMQP_CONNECTION_START_METHOD,    AMQP_CONNECTION_TUNE_METHOD,
                                     AMQP_CONNECTION_OPEN_OK_METHOD,  AMQP_CONNECTION_CLOSE_METHOD,
                                     AMQP_CONNECTION_CLOSE_OK_METHOD, AMQP_CONNECTION_BLOCKED_METHOD,
                                     AMQP_CONNECTION_UNBLOCKED_METHOD};
  constexpr std::array of_channel{
      AMQP_CHANNEL_OPEN_OK_METHOD,  AMQP_CHANNEL_FLOW_METHOD,        AMQP_CHANNEL_CLOSE_METHOD,
      AMQP_CHANNEL_CLOSE_OK_METHOD, AMQP_EXCHANGE_DECLARE_OK_METHOD, AMQP_QUEUE_DECLARE_OK_METHOD,
      AMQP_QUEUE_BIND_OK_METHOD,    AMQP_BASIC_QOS_OK_METHOD,        AMQP_BASIC_CONSUME_OK_METHOD,
      AMQP_BASIC_CANCEL_METHOD,     AMQP_BASIC_CANCEL_OK_METHOD,     AMQP_BASIC_RETURN_METHOD,
      AMQP_BASIC_DELIVER_METHOD,    AMQP_BASIC_ACK_METHOD,           AMQP_BASIC_NACK_METHOD,
      AMQP_CONFIRM_SELECT_OK_METHOD};
  const auto among = [&](const auto& methods) {
    return std::find(methods.begin(), methods.end(), method) != methods.end();
  };
  return channel == 0 ? among(of_connection) : among(of_channel);
}

// The table of headers within the properties of a message; empty if there is none, or what comes before it is cut off,
// which the codec finds.
std::string_view headers_in(std::string_view properties) {
  const auto flags = number_at<std::uint16_t>(properties, 0);
  std::size_t at = flags_bytes;
  if ((flags & 1U) != 0)
    return {};  // More flags follow, which class basic has not: the codec refuses them, or reads none.
  for (const auto before : {AMQP_BASIC_CONTENT_TYPE_FLAG, AMQP_BASIC_CONTENT_ENCODING_FLAG})
    if ((flags & before) != 0 && at < properties.size()) at += 1 + number_at<std::uint8_t>(properties, at);
  if ((flags & AMQP_BASIC_HEADERS_FLAG) == 0 || at > properties.size()) return {};
  return properties.substr(at);
}

// The bytes of a field's value after its kind; nothing if it has no fixed number.
std::optional<std::size_t> fixed_bytes(char kind) {
  switch (kind) {
    case AMQP_FIELD_KIND_VOID:
      return 0;
    case AMQP_FIELD_KIND_BOOLEAN:
    case AMQP_FIELD_KIND_I8:
    case AMQP_FIELD_KIND_U8:
      return 1;
    case AMQP_FIELD_KIND_I16:
    case AMQP_FIELD_KIND_U16:
      return 2;
    case AMQP_FIELD_KIND_I32:
    case AMQP_FIELD_KIND_U32:
    case AMQP_FIELD_KIND_F32:
      return 4;
    case AMQP_FIELD_KIND_DECIMAL:
      return 5;
    case AMQP_FIELD_KIND_I64:
    case AMQP_FIELD_KIND_U64:
    case AMQP_FIELD_KIND_F64:
    case AMQP_FIELD_KIND_TIMESTAMP:
      return 8;
    default:
      return std::nullopt;
  }
}

// Are the tables and arrays within this table nested at most table_depth_max deep? The codec calls itself for each of
// them, and a frame has room for more than a small stack holds. What is no table is left to the codec, which stops
// there.
bool is_shallow_table(std::string_view bytes) {
  struct Open {
    std::size_t end = 0;
    bool named = false;  // A table: each of its values has a name before it.
  };
  if (bytes.size() < size_bytes) return true;
  std::vector<Open> open{{.end = size_bytes + number_at<std::uint32_t>(bytes, 0), .named = true}};
  std::size_t at = size_bytes;
  while (true) {
    while (!open.empty() && at >= open.back().end) open.pop_back();
    if (open.empty() || at >= bytes.size()) return true;
    if (open.back().named) at += 1 + number_at<std::uint8_t>(bytes, at);
    if (at >= bytes.size()) return true;
    const char kind = bytes[at++];
    if (const auto size = fixed_bytes(kind)) {
      at += *size;
      continue;
    }
    if (bytes.size() - at < size_bytes) return true;
    const std::size_t end = at + size_bytes + number_at<std::uint32_t>(bytes, at);
    if (kind == AMQP_FIELD_KIND_UTF8 || kind == AMQP_FIELD_KIND_BYTES) {
      at = end;
    } else if (kind == AMQP_FIELD_KIND_TABLE || kind == AMQP_FIELD_KIND_ARRAY) {
      if (open.size() >= FrameReader::table_depth_max) return false;
      at += size_bytes;
      open.push_back({.end = end, .named = kind == AMQP_FIELD_KIND_TABLE});
    } else {
      return true;
    }
  }
}

}  // namespace

amqp_bytes_t bytes_of(std::string_view text) {
  return {.len = text.size(), .bytes = const_cast<char*>(text.data())};
}

std::string_view text_of(amqp_bytes_t bytes) {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}

// --- Writing

void FrameWriter::allow(std::size_t frame_bytes_max) {
  WAYBILL_ASSERT(frame_bytes_max >= frame_bytes_first);
  buffer_.resize(frame_bytes_max);
}

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
  const int size = amqp_encode_method(method, decoded,
                                      {.len = buffer_.size() - frame_overhead - method_bytes, .bytes = buffer_.data()});
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
  const int size =
      amqp_encode_properties(AMQP_BASIC_CLASS, &properties,
                             {.len = buffer_.size() - frame_overhead - content_header_bytes, .bytes = buffer_.data()});
  if (size < 0)
    return fmt::format("its headers do not fit into a frame of {} bytes, the largest that the broker takes",
                       buffer_.size());
  append_number(out, std::uint8_t{AMQP_FRAME_HEADER});
  append_number(out, channel);
  append_number(out, static_cast<std::uint32_t>(content_header_bytes + static_cast<std::size_t>(size)));
  append_number(out, std::uint16_t{AMQP_BASIC_CLASS});
  append_number(out, std::uint16_t{0});
  append_number(out, static_cast<std::uint64_t>(message.body.size()));
  out.append(buffer_.data(), static_cast<std::size_t>(size));
  append_number(out, static_cast<std::uint8_t>(AMQP_FRAME_END));
  return {};
}

// --- Reading

FrameReader::FrameReader() : buffer_(2 * frame_bytes_first) {
  init_amqp_pool(&pool_, pool_page_bytes);
}

FrameReader::~FrameReader() {
  empty_amqp_pool(&pool_);
}

void FrameReader::allow(std::size_t frame_bytes_max) {
  frame_bytes_max_ = frame_bytes_max;
  buffer_.resize(std::max(buffer_.size(), 2 * frame_bytes_max));
}

std::span<char> FrameReader::room() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  WAYBILL_ASSERT(end_ < buffer_.size());
  return std::span(buffer_).subspan(end_);
}

void FrameReader::filled(std::size_t count) {
  WAYBILL_ASSERT(count <= buffer_.size() - end_);
  end_ += count;
}

bool FrameReader::next(amqp_frame_t& frame) {
  recycle_amqp_pool(&pool_);
  const std::string_view here(buffer_.data() + begin_, end_ - begin_);
  if (here.size() < frame_header_bytes) return false;
  const auto type = number_at<std::uint8_t>(here, 0);
  const auto channel = number_at<amqp_channel_t>(here, 1);
  const std::size_t size = number_at<std::uint32_t>(here, 3);
  check_place(type, channel, size);
  if (here.size() < size + frame_overhead) return false;
  if (number_at<std::uint8_t>(here, frame_header_bytes + size) != AMQP_FRAME_END) refuse("a frame does not end");
  frame = {};
  frame.frame_type = type;
  frame.channel = channel;
  decode(frame, here.substr(frame_header_bytes, size));
  begin_ += size + frame_overhead;
  return true;
}

// May there be such a frame now? Asked as soon as its first bytes are there, before memory is taken for the rest.
void FrameReader::check_place(std::uint8_t type, amqp_channel_t channel, std::size_t size) const {
  const bool content = type == AMQP_FRAME_HEADER || type == AMQP_FRAME_BODY;
  if (type != AMQP_FRAME_METHOD && type != AMQP_FRAME_HEARTBEAT && !content) refuse("a frame is of no known type");
  if (size + frame_overhead > frame_bytes_max_)
    refuse(fmt::format("a frame is larger than the {} bytes that were agreed on", frame_bytes_max_));
  if (channel > channel_max_) refuse(fmt::format("a frame is of channel {}, which is not open", channel));
  if (type == AMQP_FRAME_HEARTBEAT) {
    if (channel != 0 || size != 0) refuse("a heartbeat has a channel or a content");
    return;
  }
  if (content && channel == 0) refuse("channel 0 has no messages");
  if (channel == 0) return;
  const bool in_turn = (type == AMQP_FRAME_METHOD && awaited_ == Content::none) ||
                       (type == AMQP_FRAME_HEADER && awaited_ == Content::header) ||
                       (type == AMQP_FRAME_BODY && awaited_ == Content::body);
  if (!in_turn) refuse("the frames of a message are not in their order");
}

void FrameReader::decode(amqp_frame_t& frame, std::string_view payload) {
  if (frame.frame_type == AMQP_FRAME_METHOD) return decode_method(frame, payload);
  if (frame.frame_type == AMQP_FRAME_HEADER) return decode_header(frame, payload);
  if (frame.frame_type != AMQP_FRAME_BODY) return;
  if (payload.size() > body_left_) refuse("a body is larger than its header says");
  body_left_ -= payload.size();
  if (body_left_ == 0) awaited_ = Content::none;
  frame.payload.body_fragment = bytes_of(payload);
}

void FrameReader::decode_method(amqp_frame_t& frame, std::string_view payload) {
  if (payload.size() < method_bytes) refuse("a method frame has no method");
  const auto method = number_at<amqp_method_number_t>(payload, 0);
  if (!may_come(method, frame.channel))
    refuse(fmt::format("method {}.{} does not belong on channel {}", method >> 16U, method & 0xFFFFU, frame.channel));
  const auto arguments = payload.substr(method_bytes);
  // The one method among them that has a table: after two bytes of version.
  if (method == AMQP_CONNECTION_START_METHOD &&
      !is_shallow_table(arguments.substr(std::min<std::size_t>(2, arguments.size()))))
    refuse("a table is nested too deeply");
  frame.payload.method.id = method;
  check(amqp_decode_method(method, &pool_, bytes_of(arguments), &frame.payload.method.decoded));
  if (method == AMQP_BASIC_DELIVER_METHOD || method == AMQP_BASIC_RETURN_METHOD) awaited_ = Content::header;
}

void FrameReader::decode_header(amqp_frame_t& frame, std::string_view payload) {
  if (payload.size() < content_header_bytes + flags_bytes) refuse("a header frame is not whole");
  if (number_at<std::uint16_t>(payload, 0) != AMQP_BASIC_CLASS) refuse("a header frame is of another class than basic");
  const auto properties = payload.substr(content_header_bytes);
  frame.payload.properties.class_id = AMQP_BASIC_CLASS;
  frame.payload.properties.body_size = number_at<std::uint64_t>(payload, 4);
  frame.payload.properties.raw = bytes_of(properties);
  const bool good =
      is_shallow_table(headers_in(properties)) &&
      amqp_decode_properties(AMQP_BASIC_CLASS, &pool_, bytes_of(properties), &frame.payload.properties.decoded) >= 0;
  if (!good) frame.payload.properties.decoded = nullptr;
  body_left_ = frame.payload.properties.body_size;
  awaited_ = body_left_ > 0 ? Content::body : Content::none;
}

}  // namespace waybill::rabbitmq
