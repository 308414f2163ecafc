// RabbitMQ passes the suite for sinks, through a bad network.
#include <stdexcept>

#include <amqp.h>
#include <amqp_tcp_socket.h>

#include "conformance/sink_suite.h"
#include "message/binding.h"
#include "sink/rabbitmq/options.h"
#include "support/tcp_proxy.h"
#include "support/tmp_rabbitmq.h"

namespace waybill {
namespace {

constexpr const char* user = "suite";
constexpr const char* password = "keep-this-quiet";

TmpRabbitmq& server() {
  static TmpRabbitmq made(
      {.settings = {std::string("default_user = ") + user, std::string("default_pass = ") + password}});
  return made;
}

// An exchange that sends everything to one queue, and a reader of that queue.
class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)), connection_(amqp_new_connection()) {
    amqp_socket_t* const socket = amqp_tcp_socket_new(connection_);
    if (amqp_socket_open(socket, "127.0.0.1", server().port()) != AMQP_STATUS_OK)
      throw std::runtime_error("no RabbitMQ");
    require(amqp_login(connection_, "/", 1, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN, user, password));
    amqp_channel_open(connection_, 1);
    require(amqp_get_rpc_reply(connection_));
    const amqp_bytes_t name_bytes = amqp_cstring_bytes(name_.c_str());
    amqp_exchange_declare(connection_, 1, name_bytes, amqp_cstring_bytes("fanout"), 0, 1, 0, 0, amqp_empty_table);
    require(amqp_get_rpc_reply(connection_));
    amqp_queue_declare(connection_, 1, name_bytes, 0, 1, 0, 0, amqp_empty_table);
    require(amqp_get_rpc_reply(connection_));
    amqp_queue_bind(connection_, 1, name_bytes, name_bytes, amqp_empty_bytes, amqp_empty_table);
    require(amqp_get_rpc_reply(connection_));
  }
  ~Reader() { amqp_destroy_connection(connection_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // The next message in the queue; none: it is empty.
  std::optional<SinkUnderTest::Arrival> next() {
    amqp_maybe_release_buffers(connection_);
    const auto reply = amqp_basic_get(connection_, 1, amqp_cstring_bytes(name_.c_str()), 1);
    require(reply);
    if (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD) return std::nullopt;
    amqp_message_t message;
    require(amqp_read_message(connection_, 1, &message, 0));
    SinkUnderTest::Arrival arrival{text(message.properties.message_id), text(message.body)};
    amqp_destroy_message(&message);
    return arrival;
  }

 private:
  static std::string text(amqp_bytes_t bytes) {
    return bytes.len == 0 ? std::string() : std::string(static_cast<const char*>(bytes.bytes), bytes.len);
  }
  static void require(const amqp_rpc_reply_t& reply) {
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) throw std::runtime_error("RabbitMQ refuses the reader");
  }

  const std::string name_;
  amqp_connection_state_t connection_;
};

class RabbitmqUnderTest final : public SinkUnderTest {
 public:
  std::unique_ptr<Sink> make() override {
    RabbitmqOptions options;
    options.name = "suite";
    options.hosts = {{.name = "127.0.0.1", .port = proxy_.port()}};
    options.user = user;
    options.password = password;
    options.exchange.emplace(name_, addresses::exchange);
    options.fixed_exchange = name_;
    options.routing_key.emplace("{topic}", addresses::routing_key);
    options.encode = encoder({.envelope = Envelope::raw}, bindings::amqp);
    options.connect_timeout = 1s;
    options.confirm_timeout = 2s;
    options.heartbeat = 1s;
    return rabbitmq_sink(options, {});
  }

  std::vector<Arrival> arrivals() override {
    while (auto arrival = reader_.next()) arrivals_.push_back(*std::move(arrival));
    return arrivals_;
  }

  bool can_be(Condition /*condition*/) const override { return true; }
  void become(Condition condition) override {
    if (condition == Condition::there) proxy_.pass();
    if (condition == Condition::slow) proxy_.delay(20ms);
    if (condition == Condition::away) proxy_.refuse();
    if (condition == Condition::hanging) proxy_.black_hole();
  }
  void interrupt() override { proxy_.reset(); }
  std::vector<std::string> secrets() const override { return {password}; }

 private:
  static std::string fresh_name() {
    static int count = 0;
    return "suite" + std::to_string(++count);
  }

  const std::string name_ = fresh_name();
  Reader reader_{name_};
  TcpProxy proxy_{server().port()};
  std::vector<Arrival> arrivals_;
};

INSTANTIATE_TEST_SUITE_P(Rabbitmq, SinkSuite,
                         every_sink_check("rabbitmq", [] { return std::make_unique<RabbitmqUnderTest>(); }),
                         sink_check_name);

}  // namespace
}  // namespace waybill
