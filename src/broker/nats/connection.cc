#include "broker/nats/connection.h"

#include <algorithm>
#include <charconv>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

namespace waybill::nats {
namespace {

// So far ahead of the socket, and no further: what is not written when the connection is lost did not arrive.
constexpr std::size_t unwritten_bytes_max = std::size_t{64} << 10;
// After so many reads it is time for something else.
constexpr int reads_max = 16;
constexpr std::string_view ping_line = "PING\r\n";
constexpr std::string_view pong_line = "PONG\r\n";
constexpr std::size_t violations_max = 100;
constexpr char question_mark = 'q';  // The number of a question begins with it.
constexpr int status_no_responders = 503;
constexpr std::uint64_t subscription_to_answers = 1;
constexpr std::uint64_t subscription_of_listener = 2;

template <typename Doing>
auto naming(const std::string& where, const Doing& doing) {
  try {
    return doing();
  } catch (const Error& error) {
    throw Error(error.remedy(), fmt::format("{}: {}", where, error.what()));
  }
}

// Nobody else's, and not to be guessed.
std::string new_inbox(const std::string& prefix) {
  std::random_device random;
  std::string inbox = prefix + '.';
  for (int i = 0; i < 4; ++i) inbox += fmt::format("{:08x}", random());
  return inbox + '.';
}

}  // namespace

Connection::Connection(const NatsServers& options, const net::Host& server, const net::Patience& patience,
                       Steady deadline)
    : where_(server.text()),
      patience_(patience),
      transport_(naming(where_, [&] { return net::Transport(server, patience, deadline); })),
      inbox_(new_inbox(options.inbox_prefix)) {
  naming(where_, [&] { log_in(options, server, deadline); });
}

// --- Logging in

// The server speaks first, in the clear.
void Connection::log_in(const NatsServers& options, const net::Host& server, Steady deadline) {
  await(Frame::Kind::info, deadline);
  check_server(info_, options.tls.on);
  if (options.tls.on) {
    // Whatever is said in the clear must not count as said over TLS.
    if (!reader_.empty()) throw Error(Remedy::retry, "it says more than INFO before TLS");
    transport_.secure(options.tls, server, patience_, deadline);
  }
  output_.end() += connect_line(options, info_);
  append_subscription(output_.end(), inbox_ + '*', subscription_to_answers);
  append_ping();
  await(Frame::Kind::pong, deadline);
  logged_in_ = true;
}

void Connection::await(Frame::Kind kind, Steady deadline) {
  const Receive nobody;
  while (true) {
    flush(nobody);
    Frame frame;
    while (reader_.next(frame)) {
      heed(frame, nobody);
      if (!violations_.empty())
        throw Error(Remedy::fix_config,
                    violations_.front() + "; grant it to the user that we log in as, or set inbox_prefix");
      if (frame.kind == kind) return;
    }
    if (read()) {
      patience_.check(deadline);
    } else {
      patience_.wait(fd(), waits_for_room(), deadline);
    }
  }
}

// --- Sending

void Connection::publish(std::string_view subject, std::uint64_t number, const Message& message) {
  append_message(output_.end(), subject, inbox_, number, message);
}

std::string Connection::subscribe(std::string_view word, Listen listen) {
  // Apart from the answers, which are one word after the inbox.
  std::string subject = fmt::format("{}{}.in", inbox_, word);
  append_subscription(output_.end(), subject, subscription_of_listener);
  listen_ = std::move(listen);
  reader_.allow(FrameReader::message_bytes_max);
  return subject;
}

void Connection::unsubscribe() {
  append_unsubscription(output_.end(), subscription_of_listener);
}

void Connection::finish(Steady deadline) {
  append_ping();
  naming(where_, [&] {
    do {
      await(Frame::Kind::pong, deadline);
    } while (unanswered_pings_ > 0);  // It was the answer to another.
  });
}

void Connection::publish(std::string_view subject, std::string_view reply_to, std::string_view body) {
  append_request(output_.end(), subject, reply_to, body);
}

bool Connection::is_full() const {
  return output_.unwritten() >= unwritten_bytes_max;
}

void Connection::append_ping() {
  output_.end() += ping_line;
  ++unanswered_pings_;
}

void Connection::ping() {
  append_ping();
  naming(where_, [&] { output_.flush(transport_); });
}

bool Connection::move(const Receive& receive) {
  return naming(where_, [&] {
    flush(receive);
    const std::uint64_t before = appended();
    const bool more = receive_some(receive);
    if (appended() > before) flush(receive);  // Whoever asks for a sign of life gets one at once.
    return more;
  });
}

void Connection::flush(const Receive& receive) {
  try {
    output_.flush(transport_);
  } catch (const Error&) {
    receive_some(receive);  // What was answered before the connection broke, and why it did.
    throw;
  }
}

std::optional<Connection::Answer> Connection::ask(const std::string& subject, std::string_view body, Steady deadline) {
  answer_.reset();
  append_request(output_.end(), subject, fmt::format("{}{}{}", inbox_, question_mark, ++questions_), body);
  while (true) {
    const bool more = move({});
    if (answer_) return std::exchange(answer_, std::nullopt);
    if (!violations_.empty()) return std::nullopt;
    const bool in_time = more ? std::chrono::steady_clock::now() < deadline
                              : naming(where_, [&] { return patience_.try_wait(fd(), waits_for_room(), deadline); });
    if (!in_time) return std::nullopt;
  }
}

// --- Receiving

bool Connection::receive_some(const Receive& receive) {
  for (int i = 0; i < reads_max; ++i) {
    Frame frame;
    while (reader_.next(frame)) heed(frame, receive);
    if (!read()) return false;
  }
  return true;
}

// False if nothing is there now.
bool Connection::read() {
  const std::size_t count = transport_.read(reader_.room());
  if (count == 0) return false;
  reader_.filled(count);
  heard_ = std::chrono::steady_clock::now();
  return true;
}

void Connection::heed(const Frame& frame, const Receive& receive) {
  switch (frame.kind) {
    case Frame::Kind::message:
      return heed_message(frame, receive);
    case Frame::Kind::ping:
      // Not without end for a server that asks, and does not read what we answer.
      if (!is_full()) output_.end() += pong_line;
      return;
    case Frame::Kind::info:
      return info_.update(frame.text);
    case Frame::Kind::error:
      return heed_error(frame.text);
    case Frame::Kind::pong:
      if (unanswered_pings_ > 0) --unanswered_pings_;
      return;
    case Frame::Kind::ok:
      return;
  }
}

void Connection::heed_message(const Frame& frame, const Receive& receive) {
  if (frame.subscription == subscription_of_listener) {
    if (listen_) listen_(frame);  // A server may use the number before we do.
    return;
  }
  if (!frame.subject.starts_with(inbox_)) return;
  std::string_view token = frame.subject.substr(inbox_.size());
  const bool is_question = token.starts_with(question_mark);
  if (is_question) token.remove_prefix(1);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), number);
  if (error != std::errc() || end != token.data() + token.size()) return;
  const bool no_responders = frame.status == status_no_responders && frame.data.empty();
  if (!is_question) {
    if (receive) receive({.number = number, .data = frame.data, .no_responders = no_responders});
  } else if (number == questions_) {
    answer_ = {.data = std::string(frame.data), .no_responders = no_responders};
  }
}

// What we may not do is said, and the connection goes on. With every other error it ends.
void Connection::heed_error(std::string_view text) {
  if (!logged_in_ && text == "Authorization Violation")
    throw Error(Remedy::fix_config, fmt::format("{}; check how we log in", text));
  if (!text.starts_with("Permissions Violation")) throw Error(Remedy::retry, std::string(text));
  const bool told = std::find(violations_.begin(), violations_.end(), text) != violations_.end();
  if (!told && violations_.size() < violations_max) violations_.emplace_back(text);
}

std::vector<std::string> Connection::take_violations() {
  return std::exchange(violations_, {});
}

bool Connection::is_at_least(int major, int minor) const {
  int has_major = 0;
  int has_minor = 0;
  const char* const end = info_.version.data() + info_.version.size();
  const auto dot = std::from_chars(info_.version.data(), end, has_major).ptr;
  if (dot != end) std::from_chars(dot + 1, end, has_minor);
  return has_major > major || (has_major == major && has_minor >= minor);
}

// --- Several servers

std::unique_ptr<Connection> connect_to_any(const NatsServers& options, std::size_t first, const net::Patience& patience,
                                           Steady deadline) {
  std::string troubles;
  for (std::size_t i = 0; i < options.servers.size(); ++i) {
    const net::Host& server = options.servers[(first + i) % options.servers.size()];
    const Steady its_deadline = std::min(deadline, std::chrono::steady_clock::now() + options.connect_timeout);
    try {
      return std::make_unique<Connection>(options, server, patience, its_deadline);
    } catch (const Error& error) {
      const bool late = std::chrono::steady_clock::now() >= its_deadline;
      troubles += troubles.empty() ? "" : "; ";
      troubles += late ? fmt::format("{}: no answer within {} ms", server.text(), options.connect_timeout.count())
                       : error.what();
    }
  }
  throw Error(Remedy::retry, troubles);
}

}  // namespace waybill::nats
