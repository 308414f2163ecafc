// RabbitMQ, and a publisher by librabbitmq's own connections.
#include <algorithm>
#include <stdexcept>

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <fmt/format.h>
#include <poll.h>

#include "broker.h"
#include "brokers/rabbitmq_client.h"
#include "server.h"
#include "sink/rabbitmq/options.h"
#include "support/tmp_rabbitmq.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;

constexpr const char* place = "bench";  // The exchange, and the queue.
constexpr const char* routing_key = "order.paid";

amqp_bytes_t bytes(std::string_view text) {
  return {text.size(), const_cast<char*>(text.data())};
}

class BareRabbitmq final : public BarePublisher {
 public:
  BareRabbitmq(std::uint16_t port, int window) : window_(window), connection_(amqp_new_connection()) {
    if (amqp_socket_open(amqp_tcp_socket_new(connection_), "127.0.0.1", port) != AMQP_STATUS_OK)
      throw std::runtime_error("cannot connect to RabbitMQ");
    check(amqp_login(connection_, "/", 0, 131'072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest"));
    amqp_channel_open(connection_, 1);
    check(amqp_get_rpc_reply(connection_));
    amqp_confirm_select(connection_, 1);
    check(amqp_get_rpc_reply(connection_));
    dress();
  }
  ~BareRabbitmq() override {
    amqp_connection_close(connection_, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(connection_);
  }
  BareRabbitmq(const BareRabbitmq&) = delete;
  BareRabbitmq& operator=(const BareRabbitmq&) = delete;

  void publish(long events) override {
    expect(events);
    while (confirmed_ < events) {
      while (sent_ < events && sent_ - confirmed_ < window_) send();
      take_frames(30s);
    }
  }

  std::vector<double> round_trips(int rate, std::chrono::milliseconds duration) override {
    const long events = rate * duration / 1s;
    expect(events);
    const auto apart = std::chrono::nanoseconds(1s) / rate;
    const auto begin = std::chrono::steady_clock::now();
    while (confirmed_ < events) {
      while (sent_ < events && std::chrono::steady_clock::now() >= begin + sent_ * apart) send();
      const auto rest = sent_ < events ? begin + sent_ * apart - std::chrono::steady_clock::now() : 30s;
      await_bytes(std::max<std::chrono::nanoseconds>(rest, 0ns));
      take_frames(0s);
    }
    std::vector<double> took;
    for (std::size_t n = 0; n < sent_at_.size(); ++n)
      took.push_back(std::chrono::duration<double, std::milli>(confirmed_at_[n] - sent_at_[n]).count());
    return took;
  }

 private:
  static void check(amqp_rpc_reply_t reply) {
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) throw std::runtime_error("RabbitMQ refuses the bench");
  }

  void dress() {
    for (std::size_t i = 0; i < message_.headers.size(); ++i) {
      const auto [name, value] = message_.headers[i];
      amqp_table_entry_t entry{};
      entry.key = bytes(name);
      entry.value.kind = AMQP_FIELD_KIND_UTF8;
      entry.value.value.bytes = bytes(value);
      entries_.push_back(entry);
    }
    properties_._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_HEADERS_FLAG |
                         AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_TIMESTAMP_FLAG;
    properties_.content_type = bytes(message_.content_type);
    properties_.delivery_mode = AMQP_DELIVERY_PERSISTENT;
    properties_.headers = {static_cast<int>(entries_.size()), entries_.data()};
    properties_.type = bytes(message_.type);
    properties_.timestamp = 1;
  }

  void expect(long events) {
    sent_at_.resize(static_cast<std::size_t>(events));
    confirmed_at_.resize(static_cast<std::size_t>(events));
  }

  void send() {
    const std::string id = message_id(publisher_, sent_);
    properties_.message_id = bytes(id);
    sent_at_[static_cast<std::size_t>(sent_)] = std::chrono::steady_clock::now();
    if (amqp_basic_publish(connection_, 1, bytes(place), bytes(routing_key), 1, 0, &properties_,
                           bytes(message_.body)) != AMQP_STATUS_OK)
      throw std::runtime_error("cannot publish to RabbitMQ");
    ++sent_;
  }

  // The library's own wait spins through the last millisecond, and a spinning publisher is late for its confirmations.
  void await_bytes(std::chrono::nanoseconds patience) {
    pollfd socket{.fd = amqp_get_sockfd(connection_), .events = POLLIN, .revents = 0};
    const timespec wait{.tv_sec = patience / 1s, .tv_nsec = (patience % 1s).count()};
    ::ppoll(&socket, 1, &wait, nullptr);
  }

  // Waits for a frame, and takes all that have come with it.
  void take_frames(std::chrono::nanoseconds patience) {
    timeval wait{.tv_sec = patience / 1s, .tv_usec = patience % 1s / 1us};
    do {
      amqp_frame_t frame;
      const int status = amqp_simple_wait_frame_noblock(connection_, &frame, &wait);
      if (status == AMQP_STATUS_TIMEOUT) break;
      if (status != AMQP_STATUS_OK) throw std::runtime_error("the connection to RabbitMQ is lost");
      take(frame);
    } while (amqp_frames_enqueued(connection_) != 0 || amqp_data_in_buffer(connection_) != 0);
    amqp_maybe_release_buffers(connection_);
  }

  void take(const amqp_frame_t& frame) {
    if (frame.frame_type != AMQP_FRAME_METHOD || frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
      throw std::runtime_error("RabbitMQ has not taken a message");
    const auto* ack = static_cast<const amqp_basic_ack_t*>(frame.payload.method.decoded);
    const auto tag = static_cast<long>(ack->delivery_tag);
    if (!ack->multiple) {
      confirm(tag - 1);
      return;
    }
    for (; all_before_ < tag; ++all_before_) confirm(all_before_);
  }

  void confirm(long n) {
    SteadyTime& at = confirmed_at_.at(static_cast<std::size_t>(n));
    if (at != SteadyTime{}) return;  // By itself before.
    at = std::chrono::steady_clock::now();
    ++confirmed_;
  }

  const long window_;
  amqp_connection_state_t connection_;
  const int publisher_ = next_publisher();
  const Message message_ = sample_message(bindings::amqp);
  std::vector<amqp_table_entry_t> entries_;
  amqp_basic_properties_t properties_{};
  long sent_ = 0;
  long confirmed_ = 0;
  long all_before_ = 0;
  std::vector<SteadyTime> sent_at_;
  std::vector<SteadyTime> confirmed_at_;
};

class RabbitmqBroker final : public Broker {
 public:
  explicit RabbitmqBroker(std::string queue_type) : queue_type_(std::move(queue_type)) {
    client_.declare_exchange(place);
    make_queue();
  }

  std::string name() const override { return "rabbitmq"; }
  std::string destination(std::uint16_t port) const override {
    return fmt::format("type = \"rabbitmq\"\nurl = \"amqp://guest:guest@127.0.0.1:{}/\"\nexchange = \"{}\"\n", port,
                       place);
  }
  std::uint16_t port() const override { return server_.port(); }

  std::unique_ptr<Sink> sink() const override {
    RabbitmqOptions options;
    options.name = "bench";
    options.hosts = {{"127.0.0.1", server_.port()}};
    options.password = "guest";
    options.exchange.emplace(place, addresses::exchange);
    options.fixed_exchange = place;
    options.routing_key.emplace("{topic}", addresses::routing_key);
    options.encode = encoder({}, bindings::amqp);
    return rabbitmq_sink(std::move(options), {});
  }

  std::unique_ptr<BarePublisher> publisher(int window) const override {
    return std::make_unique<BareRabbitmq>(server_.port(), window);
  }

  void empty() override {
    client_.delete_queue(place);
    make_queue();
  }
  long count() override { return client_.count(place); }
  double cpu() const override { return cpu_seconds(server_.pid()); }

 private:
  void make_queue() {
    client_.declare_queue(place, {{"x-queue-type", queue_type_}});
    client_.bind(place, place, "#");
  }

  const std::string queue_type_;
  TmpRabbitmq server_;
  RabbitmqClient client_{server_.port()};
};

}  // namespace

std::unique_ptr<Broker> rabbitmq_broker(const std::string& queue_type) {
  return std::make_unique<RabbitmqBroker>(queue_type);
}

}  // namespace waybill::bench
