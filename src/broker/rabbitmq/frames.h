#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <amqp.h>
#include <amqp_framing.h>

#include "message/message.h"

namespace waybill::rabbitmq {

// Frames of AMQP 0-9-1 as bytes, by librabbitmq's codec. Its own connections are not used: they block while a broker
// that is short of memory does not read, send no heartbeats meanwhile, and write every message in three pieces; and
// their decoder trusts the sizes in a frame.

// The views stay the caller's.
amqp_bytes_t bytes_of(std::string_view text);
std::string_view text_of(amqp_bytes_t bytes);

class FrameWriter {
 public:
  static constexpr std::size_t frame_bytes_first = 4096;  // What every broker takes, before anything is agreed.

  // The largest frame that was agreed on. REQUIRES: at least frame_bytes_first
  void allow(std::size_t frame_bytes_max);

  // `decoded`: the struct of amqp_framing.h that belongs to the method.
  void append_method(std::string& out, amqp_channel_t channel, amqp_method_number_t method, void* decoded);
  void append_heartbeat(std::string& out) const;

  // A message with its method, properties and body. Returns why it cannot be sent; empty if it can.
  std::string append_message(std::string& out, amqp_channel_t channel, std::string_view exchange,
                             std::string_view routing_key, const Message& message);

 private:
  void append_frame(std::string& out, std::uint8_t type, amqp_channel_t channel, std::string_view payload) const;
  std::string append_properties(std::string& out, amqp_channel_t channel, const Message& message);

  std::vector<char> buffer_ = std::vector<char>(frame_bytes_first);
  std::vector<amqp_table_entry_t> headers_;
};

// Makes frames of bytes as they come, however they are cut. A frame is checked before it is decoded, so that a caller
// may cast it by its type and method alone:
//   - its size is one that was agreed on, and as large as its type needs;
//   - its channel is 0, or 1 after allow_channel(); a method is one that a server may send on that channel;
//   - header and body frames follow a basic.deliver or basic.return of class basic, and have exactly the bytes of body
//   that
//     the header tells;
//   - tables are nested at most `table_depth_max` deep.
// Everything else is an Error(retry), but for the properties of a message, which are its publisher's and not the
// broker's: those that cannot be decoded are null. Memory: two of the largest frames, whatever comes. One thread.
class FrameReader {
 public:
  // Before anything is agreed on: RabbitMQ's first frame lists its properties, and may be larger than the 4096 bytes of
  // the protocol.
  static constexpr std::size_t frame_bytes_first = std::size_t{64} * 1024;
  static constexpr std::size_t table_depth_max = 100;

  FrameReader();
  ~FrameReader();
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;

  // The largest frame that was agreed on.
  void allow(std::size_t frame_bytes_max);
  // Frames of channel 1 may come.
  void allow_channel() { channel_max_ = 1; }

  // Where the next bytes are to be put, at least one, and how many were.
  // REQUIRES: next() has returned false since the last filled()
  std::span<char> room();
  void filled(std::size_t count);

  // The next whole frame, valid until the next call; false if there is none yet.
  bool next(amqp_frame_t& frame);

 private:
  enum class Content { none, header, body };

  void check_place(std::uint8_t type, amqp_channel_t channel, std::size_t size) const;
  void decode(amqp_frame_t& frame, std::string_view payload);
  void decode_method(amqp_frame_t& frame, std::string_view payload);
  void decode_header(amqp_frame_t& frame, std::string_view payload);

  amqp_pool_t pool_{};
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t frame_bytes_max_ = frame_bytes_first;
  amqp_channel_t channel_max_ = 0;
  Content awaited_ = Content::none;  // Of the message that is arriving: the next frame of its channel.
  std::uint64_t body_left_ = 0;      // Bytes of its body still to come.
};

}  // namespace waybill::rabbitmq
