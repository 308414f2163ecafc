#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "waybill/error.h"
#include "waybill/time.h"

#include "broker/rabbitmq/frames.h"
#include "broker/rabbitmq/options.h"
#include "net/output.h"
#include "net/transport.h"

namespace waybill::rabbitmq {

// Why the broker has closed a channel.
struct Refusal {
  int code = 0;
  std::string text{};
};

// A Connection is logged in at a broker and has one channel. What is to be sent is appended; flush() and next() send
// and receive what is possible now. What ends the connection is an Error that names the host: Error(fix_config) if the
// broker has refused us for what a person must mend, Error(retry) else. One thread.
class Connection {
 public:
  static constexpr amqp_channel_t channel = 1;

  // Connected and logged in, by `deadline`. `options` and `patience` must outlive it.
  Connection(const RabbitmqServers& options, const net::Host& host, const net::Patience& patience, Steady deadline);

  // Asks for something on the channel and waits for the answer, which must be a `reply`. Returns why the broker has
  // closed the channel instead.
  std::optional<Refusal> ask(amqp_method_number_t method, void* decoded, amqp_method_number_t reply, Steady deadline);
  // A new channel; after a refusal, too.
  void open_channel(Steady deadline);
  // Says goodbye, and waits for the answer until `deadline`. Throws nothing.
  void close(Steady deadline) noexcept;

  // Where frames to be sent are appended, with `writer()`.
  net::Output& output() { return output_; }
  const net::Output& output() const { return output_; }
  FrameWriter& writer() { return writer_; }

  void flush();
  // The next frame for the channel, checked as FrameReader says, valid until the next call; false if there is none now.
  bool next(amqp_frame_t& frame);
  // Sends a heartbeat if it is time. Throws if the broker has not given a sign of life for too long.
  void attend(Steady now);
  // When attend() will have something to do.
  Steady attend_at() const;

  // As Transport's.
  std::optional<Time> trusted_until() const { return transport_.trusted_until(); }
  int fd() const { return transport_.fd(); }
  bool waits_for_room() const { return output_.unwritten() > 0 && transport_.waits_for_room(); }
  // Why the broker wants nothing published now; empty if it does.
  const std::string& blocked() const { return blocked_; }
  // "host:port"
  const std::string& where() const { return where_; }
  const std::string& user() const { return options_.user; }

 private:
  void log_in(Steady deadline);
  void answer_start(const amqp_connection_start_t& start);
  void answer_tune(const amqp_connection_tune_t& tune);
  void append(amqp_channel_t on, amqp_method_number_t method, void* decoded);
  // Until that method comes, or the broker closes the channel.
  void await(amqp_frame_t& frame, amqp_method_number_t method, Steady deadline);
  bool read_frame(amqp_frame_t& frame);
  // Deals with what is about the whole connection; true if it was.
  bool heed(const amqp_frame_t& frame);
  [[noreturn]] void end_by_broker(const amqp_connection_close_t& close);
  template <typename Doing>
  auto naming_the_host(const Doing& doing);

  const RabbitmqServers& options_;
  const std::string where_;
  const net::Patience& patience_;
  net::Transport transport_;
  FrameReader reader_;
  FrameWriter writer_;
  net::Output output_;
  std::chrono::milliseconds heartbeat_{0};  // 0: none was agreed on.
  Steady heard_{};
  Steady spoken_{};
  bool logged_in_ = false;
  std::string blocked_;
};

// As a person would want it: "NOT_FOUND - no exchange 'x' in vhost '/' (404)".
std::string describe(const Refusal& refusal);
// Of what we have asked for: does a person have to mend something, or is it the broker's own affair for now?
Remedy remedy_of(const Refusal& refusal);

}  // namespace waybill::rabbitmq
