#include "broker/rabbitmq/connection.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "waybill/error.h"

namespace waybill::rabbitmq {
namespace {

constexpr std::uint32_t frame_bytes_wanted = 131'072;
constexpr std::uint32_t frame_bytes_least = 4096;  // The protocol's own; 0 is no limit.
constexpr std::uint16_t channels_wanted = 8;

amqp_table_entry_t text_entry(std::string_view name, std::string_view text) {
  amqp_table_entry_t made{};
  made.key = bytes_of(name);
  made.value.kind = AMQP_FIELD_KIND_UTF8;
  made.value.value.bytes = bytes_of(text);
  return made;
}

amqp_table_entry_t true_entry(std::string_view name) {
  amqp_table_entry_t made{};
  made.key = bytes_of(name);
  made.value.kind = AMQP_FIELD_KIND_BOOLEAN;
  made.value.value.boolean = 1;
  return made;
}

amqp_table_entry_t table_entry(std::string_view name, amqp_table_t table) {
  amqp_table_entry_t made{};
  made.key = bytes_of(name);
  made.value.kind = AMQP_FIELD_KIND_TABLE;
  made.value.value.table = table;
  return made;
}

template <std::size_t N>
amqp_table_t table_of(std::array<amqp_table_entry_t, N>& entries) {
  return {.num_entries = static_cast<int>(N), .entries = entries.data()};
}

bool is_listed(std::string_view words, std::string_view wanted) {
  while (!words.empty()) {
    const auto end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == wanted) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

// Is it that method, or does the broker close the channel instead? FrameReader lets neither come on another channel
// than its own.
bool is_or_closes(const amqp_method_t& method, amqp_method_number_t wanted) {
  return method.id == wanted || method.id == AMQP_CHANNEL_CLOSE_METHOD;
}

// Of two limits of which 0 is none.
template <typename Number>
Number lesser(Number a, Number b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

template <typename Doing>
auto connecting_to(const std::string& where, const Doing& doing) {
  try {
    return doing();
  } catch (const Error& error) {
    throw Error(error.remedy(), fmt::format("cannot connect to {}: {}", where, error.what()));
  }
}

}  // namespace

std::string describe(const Refusal& refusal) {
  return fmt::format("{} ({})", refusal.text, refusal.code);
}

Remedy remedy_of(const Refusal& refusal) {
  // "home node 'rabbit@b' of durable queue 'orders' in vhost '/' is down or inaccessible"
  if (refusal.code == AMQP_NOT_FOUND && refusal.text.find("is down or inaccessible") != std::string::npos)
    return Remedy::retry;
  const bool refused = refusal.code == AMQP_NOT_FOUND || refusal.code == AMQP_ACCESS_REFUSED ||
                       refusal.code == AMQP_PRECONDITION_FAILED || refusal.code == AMQP_NOT_ALLOWED ||
                       refusal.code == AMQP_NOT_IMPLEMENTED || refusal.code == AMQP_COMMAND_INVALID;
  return refused ? Remedy::fix_config : Remedy::retry;
}

template <typename Doing>
auto Connection::naming_the_host(const Doing& doing) {
  try {
    return doing();
  } catch (const Error& error) {
    throw Error(error.remedy(), fmt::format("{}: {}{}", where_, error.what(), logged_in_ ? "" : ", while logging in"));
  }
}

Connection::Connection(const RabbitmqServers& options, const net::Host& host, const net::Patience& patience,
                       Steady deadline)
    : options_(options),
      where_(host.text()),
      patience_(patience),
      transport_(connecting_to(where_, [&] { return net::Transport(host, patience, deadline); })) {
  if (options.tls.on) connecting_to(where_, [&] { transport_.secure(options.tls, host, patience, deadline); });
  heard_ = spoken_ = std::chrono::steady_clock::now();
  log_in(deadline);
}

// --- Logging in

void Connection::log_in(Steady deadline) {
  output_.end().append("AMQP\0\0\x09\x01", 8);
  amqp_frame_t frame{};
  await(frame, AMQP_CONNECTION_START_METHOD, deadline);
  answer_start(*static_cast<const amqp_connection_start_t*>(frame.payload.method.decoded));
  await(frame, AMQP_CONNECTION_TUNE_METHOD, deadline);
  answer_tune(*static_cast<const amqp_connection_tune_t*>(frame.payload.method.decoded));
  amqp_connection_open_t open{};
  open.virtual_host = bytes_of(options_.vhost);
  append(0, AMQP_CONNECTION_OPEN_METHOD, &open);
  await(frame, AMQP_CONNECTION_OPEN_OK_METHOD, deadline);
  logged_in_ = true;
}

void Connection::answer_start(const amqp_connection_start_t& start) {
  const bool plain = options_.sasl == RabbitmqServers::Sasl::plain;
  const std::string_view mechanism = plain ? "PLAIN" : "EXTERNAL";
  if (!is_listed(text_of(start.mechanisms), mechanism))
    throw Error(Remedy::fix_config,
                fmt::format("{}: does not let anybody log in by {}, only by {}; set sasl, or enable "
                            "it there",
                            where_, mechanism, text_of(start.mechanisms)));
  std::string response;
  if (plain) response = std::string(1, '\0') + options_.user + std::string(1, '\0') + options_.password;
  // Without authentication_failure_close a broker would only hang up, and without connection.blocked not say why it
  // reads no more.
  std::array capabilities{true_entry("authentication_failure_close"), true_entry("connection.blocked"),
                          true_entry("publisher_confirms"), true_entry("basic.nack"),
                          true_entry("consumer_cancel_notify")};
  const std::string name = "waybill " + options_.name;
  std::array properties{text_entry("product", "Waybill"), text_entry("connection_name", name),
                        table_entry("capabilities", table_of(capabilities))};
  amqp_connection_start_ok_t answer{};
  answer.client_properties = table_of(properties);
  answer.mechanism = bytes_of(mechanism);
  answer.response = bytes_of(response);
  answer.locale = bytes_of("en_US");
  append(0, AMQP_CONNECTION_START_OK_METHOD, &answer);
}

void Connection::answer_tune(const amqp_connection_tune_t& tune) {
  if (tune.frame_max != 0 && tune.frame_max < frame_bytes_least)
    throw Error(Remedy::fix_config,
                fmt::format("{}: takes frames of {} bytes at most; AMQP 0-9-1 demands {}: raise its frame_max", where_,
                            tune.frame_max, frame_bytes_least));
  amqp_connection_tune_ok_t answer{};
  answer.channel_max = lesser(tune.channel_max, channels_wanted);
  answer.frame_max = lesser(tune.frame_max, frame_bytes_wanted);
  answer.heartbeat = lesser(tune.heartbeat, static_cast<std::uint16_t>(options_.heartbeat.count()));
  heartbeat_ = std::chrono::seconds(answer.heartbeat);
  append(0, AMQP_CONNECTION_TUNE_OK_METHOD, &answer);
  writer_.allow(answer.frame_max);
  reader_.allow(answer.frame_max);
}

// --- Questions and answers

void Connection::append(amqp_channel_t on, amqp_method_number_t method, void* decoded) {
  writer_.append_method(output_.end(), on, method, decoded);
}

void Connection::await(amqp_frame_t& frame, amqp_method_number_t method, Steady deadline) {
  while (true) {
    flush();
    while (read_frame(frame))
      if (!heed(frame) && frame.frame_type == AMQP_FRAME_METHOD && is_or_closes(frame.payload.method, method)) return;
    naming_the_host([&] { patience_.wait(fd(), waits_for_room(), deadline); });
  }
}

std::optional<Refusal> Connection::ask(amqp_method_number_t method, void* decoded, amqp_method_number_t reply,
                                       Steady deadline) {
  append(channel, method, decoded);
  amqp_frame_t frame{};
  await(frame, reply, deadline);
  if (frame.payload.method.id == reply) return std::nullopt;
  const auto& close = *static_cast<const amqp_channel_close_t*>(frame.payload.method.decoded);
  Refusal refusal{.code = close.reply_code, .text = std::string(text_of(close.reply_text))};
  amqp_channel_close_ok_t done{};
  append(channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &done);
  return refusal;
}

void Connection::open_channel(Steady deadline) {
  reader_.allow_channel();
  amqp_channel_open_t open{};
  if (const auto refusal = ask(AMQP_CHANNEL_OPEN_METHOD, &open, AMQP_CHANNEL_OPEN_OK_METHOD, deadline))
    throw Error(Remedy::fix_config, fmt::format("{}: {}", where_, describe(*refusal)));
}

void Connection::close(Steady deadline) noexcept {
  try {
    amqp_connection_close_t close{};
    close.reply_code = AMQP_REPLY_SUCCESS;
    append(0, AMQP_CONNECTION_CLOSE_METHOD, &close);
    amqp_frame_t frame{};
    do {
      await(frame, AMQP_CONNECTION_CLOSE_OK_METHOD, deadline);
    } while (frame.payload.method.id != AMQP_CONNECTION_CLOSE_OK_METHOD);
  } catch (const std::exception&) {
    return;  // It was only for the broker's log.
  }
}

// --- Bytes

void Connection::flush() {
  if (naming_the_host([&] { return output_.flush(transport_); })) spoken_ = std::chrono::steady_clock::now();
}

bool Connection::read_frame(amqp_frame_t& frame) {
  return naming_the_host([&] {
    while (!reader_.next(frame)) {
      const std::size_t count = transport_.read(reader_.room());
      if (count == 0) return false;
      heard_ = std::chrono::steady_clock::now();
      reader_.filled(count);
    }
    return true;
  });
}

bool Connection::next(amqp_frame_t& frame) {
  while (read_frame(frame))
    if (!heed(frame) && frame.channel == channel) return true;
  return false;
}

bool Connection::heed(const amqp_frame_t& frame) {
  if (frame.frame_type == AMQP_FRAME_HEARTBEAT) return true;
  if (frame.channel != 0 || frame.frame_type != AMQP_FRAME_METHOD) return false;
  const amqp_method_t& method = frame.payload.method;
  if (method.id == AMQP_CONNECTION_CLOSE_METHOD)
    end_by_broker(*static_cast<const amqp_connection_close_t*>(method.decoded));
  if (method.id == AMQP_CONNECTION_BLOCKED_METHOD) {
    blocked_ = text_of(static_cast<const amqp_connection_blocked_t*>(method.decoded)->reason);
    if (blocked_.empty()) blocked_ = "no reason given";
    return true;
  }
  if (method.id == AMQP_CONNECTION_UNBLOCKED_METHOD) {
    blocked_.clear();
    return true;
  }
  return false;
}

void Connection::end_by_broker(const amqp_connection_close_t& close) {
  const Refusal refusal{.code = close.reply_code, .text = std::string(text_of(close.reply_text))};
  amqp_connection_close_ok_t done{};
  append(0, AMQP_CONNECTION_CLOSE_OK_METHOD, &done);
  try {
    flush();
  } catch (const Error&) {
    // It is over either way.
  }
  if (logged_in_) throw Error(Remedy::retry, fmt::format("{}: closed by the broker: {}", where_, describe(refusal)));
  if (refusal.code == AMQP_ACCESS_REFUSED)
    throw Error(Remedy::fix_config, fmt::format("{}: refuses to log in user '{}': {}; check user, password and sasl",
                                                where_, options_.user, describe(refusal)));
  throw Error(refusal.code == AMQP_NOT_ALLOWED ? Remedy::fix_config : Remedy::retry,
              fmt::format("{}: refuses vhost '{}': {}; create it, or give user '{}' permissions there", where_,
                          options_.vhost, describe(refusal), options_.user));
}

// --- Signs of life

void Connection::attend(Steady now) {
  if (heartbeat_.count() == 0) return;
  if (now - heard_ >= 2 * heartbeat_)
    throw Error(Remedy::retry, fmt::format("{}: nothing was heard of it for {} ms, twice the heartbeat; the connection "
                                           "is given up",
                                           where_, 2 * heartbeat_.count()));
  if (now - spoken_ < heartbeat_ / 2) return;
  // What is still to be written is as good a sign, once it can be written.
  if (output_.unwritten() == 0) writer_.append_heartbeat(output_.end());
  spoken_ = now;
  flush();
}

Steady Connection::attend_at() const {
  if (heartbeat_.count() == 0) return Steady::max();
  return std::min(heard_ + 2 * heartbeat_, spoken_ + heartbeat_ / 2);
}

}  // namespace waybill::rabbitmq
