#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <amqp.h>
#include <amqp_framing.h>

#include "message/message.h"

namespace waybill::rabbitmq {

// Frames of AMQP 0-9-1 as bytes, by librabbitmq's codec. Its own connections are not used: they block while a broker
// that is short of memory does not read, send no heartbeats meanwhile, and write every message in three pieces.

// The views stay the caller's.
amqp_bytes_t bytes_of(std::string_view text);
std::string_view text_of(amqp_bytes_t bytes);

class FrameWriter {
 public:
  static constexpr std::size_t frame_bytes_first = 4096;  // What every broker takes, before anything is agreed.

  // The largest frame that was agreed on.
  void allow(std::size_t frame_bytes_max) { buffer_.resize(frame_bytes_max); }

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

class FrameReader {
 public:
  FrameReader();

  // The largest frame that was agreed on. To be said between two frames.
  void allow(std::size_t frame_bytes_max);

  // Where the next bytes are to be put, and how many were.
  std::span<char> room() { return buffer_; }
  void filled(std::size_t count);

  // The next whole frame, valid until the next call; false if there is none yet. Throws Error(retry) if it is no AMQP.
  // REQUIRES: filled() is called only when it has said false.
  bool next(amqp_frame_t& frame);

 private:
  std::unique_ptr<amqp_connection_state_t_, int (*)(amqp_connection_state_t)> codec_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

}  // namespace waybill::rabbitmq
