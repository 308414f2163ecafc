#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/event.h"

#include "message/message.h"

namespace waybill::nats {

// --- What we say, appended to what is to be sent

// A message for `subject`, to be answered at `inbox` with `number` after it.
// REQUIRES: no spaces or line ends in subject and inbox, no line ends in names and values of headers
void append_message(std::string& out, std::string_view subject, std::string_view inbox, std::uint64_t number,
                    const Message& message);
// The same without headers.
void append_request(std::string& out, std::string_view subject, std::string_view reply_to, std::string_view body);
// By `number` the messages for it are told from others.
void append_subscription(std::string& out, std::string_view subject, std::uint64_t number);
void append_unsubscription(std::string& out, std::uint64_t number);

// What a message comes to on the wire, as the server's max_payload counts it.
std::size_t wire_size(const Message& message);

// --- What a server says

struct Frame {
  enum class Kind { info, message, ping, pong, ok, error };

  Kind kind = Kind::ok;
  std::string_view text{};     // Of `info`: JSON; of `error`: what the server says, without its quotation marks.
  std::string_view subject{};  // Of a message, as are:
  std::uint64_t subscription = 0;
  std::string_view reply_to{};
  std::string_view headers{};  // As they came, without the line of their version and status; see read_headers().
  std::string_view data{};
  int status = 0;  // 503: nobody listens there; 0: it has none.
  std::string_view status_text{};
};

// The names and values of a message's headers. What is no header is passed over.
std::vector<Header> read_headers(std::string_view lines);

// Makes frames of bytes as they come, however they are cut. Whatever comes, it takes no more memory than the largest
// message it allows. What is not the protocol is an Error(retry). One thread.
class FrameReader {
 public:
  // Neither is ever longer: the longest line is INFO, with the addresses of a whole cluster, and the largest message
  // JetStream's answer to a question; or, for those who allow() them, the largest that a server takes.
  static constexpr std::size_t line_bytes_max = std::size_t{64} << 10;
  static constexpr std::size_t answer_bytes_max = std::size_t{8} << 20;
  static constexpr std::size_t message_bytes_max = std::size_t{65} << 20;

  FrameReader();

  void allow(std::size_t bytes_max) { bytes_max_ = bytes_max; }
  // Where the next bytes are to be put, at least one; and how many were.
  std::span<char> room();
  void filled(std::size_t count);
  // The next frame, valid until room() is called; false if it is not there yet.
  bool next(Frame& frame);
  // Has everything been handed out?
  bool empty() const { return begin_ == end_; }

 private:
  std::size_t bytes_max_ = answer_bytes_max;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;     // Of the next frame.
  std::size_t end_ = 0;       // Of what has come.
  std::size_t searched_ = 0;  // So much of it has no line end.
  std::size_t needed_ = 0;    // It is not there before so much of it is.
};

}  // namespace waybill::nats
