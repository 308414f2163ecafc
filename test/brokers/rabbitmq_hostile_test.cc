// Brokers that are not as a broker should be: what they say is a script.
#include <array>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "waybill/error.h"
#include "waybill/rabbitmq_source.h"

#include "broker/rabbitmq/frames.h"
#include "sink/rabbitmq/options.h"
#include "support/scripted_server.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using rabbitmq::bytes_of;
using testing::HasSubstr;
using Kind = Outcome::Kind;

std::string number(std::uint64_t value, int bytes) {
  std::string out;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xFFU);
  return out;
}

std::string frame_of(int type, const std::string& payload) {
  return number(static_cast<unsigned>(type), 1) + number(1, 2) + number(payload.size(), 4) + payload +
         static_cast<char>(AMQP_FRAME_END);
}

template <typename Arguments>
std::string method_of(amqp_channel_t channel, amqp_method_number_t method, Arguments arguments) {
  rabbitmq::FrameWriter writer;
  std::string out;
  writer.append_method(out, channel, method, &arguments);
  return out;
}

amqp_basic_ack_t ack_of(std::uint64_t tag) {
  amqp_basic_ack_t ack{};
  ack.delivery_tag = tag;
  return ack;
}

amqp_basic_deliver_t deliver_of(std::uint64_t tag) {
  amqp_basic_deliver_t deliver{};
  deliver.delivery_tag = tag;
  return deliver;
}

amqp_connection_tune_t tune_of(std::uint32_t frame_max) {
  amqp_connection_tune_t tune{};
  tune.frame_max = frame_max;
  return tune;
}

amqp_connection_start_t start_of_plain() {
  amqp_connection_start_t start{};
  start.version_minor = 9;
  start.mechanisms = bytes_of("PLAIN");
  start.locales = bytes_of("en_US");
  return start;
}

std::string header_of(std::uint64_t body_size, int klass, const std::string& properties) {
  return frame_of(AMQP_FRAME_HEADER,
                  number(static_cast<unsigned>(klass), 2) + number(0, 2) + number(body_size, 8) + properties);
}

std::string delivery_of(std::uint64_t tag, std::uint64_t body_size) {
  return method_of(1, AMQP_BASIC_DELIVER_METHOD, deliver_of(tag)) +
         header_of(body_size, AMQP_BASIC_CLASS, number(0, 2));
}

// One client, as a broker has it.
class Client {
 public:
  explicit Client(int fd) : fd_(fd) {}
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void say(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  // Until the client has sent that method, or is gone.
  void hear(amqp_method_number_t method) { hear(frame_start(method)); }
  void hear(const std::string& bytes) {
    std::size_t at = 0;
    while ((at = heard_.find(bytes)) == std::string::npos && read()) {
    }
    heard_.erase(0, at == std::string::npos ? heard_.size() : at + bytes.size());
  }
  void wait_for_the_end() {
    while (read()) heard_.clear();
  }

  void start() {
    hear("AMQP");
    say(method_of(0, AMQP_CONNECTION_START_METHOD, start_of_plain()));
    hear(AMQP_CONNECTION_START_OK_METHOD);
  }
  void tune(std::uint32_t frame_max) {
    say(method_of(0, AMQP_CONNECTION_TUNE_METHOD, tune_of(frame_max)));
    hear(AMQP_CONNECTION_TUNE_OK_METHOD);
  }
  void let_in() {
    start();
    tune(0);
    hear(AMQP_CONNECTION_OPEN_METHOD);
    say(method_of(0, AMQP_CONNECTION_OPEN_OK_METHOD, amqp_connection_open_ok_t{}));
    hear(AMQP_CHANNEL_OPEN_METHOD);
    say(method_of(1, AMQP_CHANNEL_OPEN_OK_METHOD, amqp_channel_open_ok_t{}));
  }
  void let_publish() {
    let_in();
    hear(AMQP_CONFIRM_SELECT_METHOD);
    say(method_of(1, AMQP_CONFIRM_SELECT_OK_METHOD, amqp_confirm_select_ok_t{}));
    hear(AMQP_BASIC_PUBLISH_METHOD);
  }
  void let_consume() {
    let_in();
    hear(AMQP_QUEUE_DECLARE_METHOD);
    say(method_of(1, AMQP_QUEUE_DECLARE_OK_METHOD, amqp_queue_declare_ok_t{}));
    hear(AMQP_BASIC_QOS_METHOD);
    say(method_of(1, AMQP_BASIC_QOS_OK_METHOD, amqp_basic_qos_ok_t{}));
    hear(AMQP_BASIC_CONSUME_METHOD);
    say(method_of(1, AMQP_BASIC_CONSUME_OK_METHOD, amqp_basic_consume_ok_t{}));
  }

 private:
  static std::string frame_start(amqp_method_number_t method) { return number(method, 4); }
  bool read() {
    std::array<char, 65536> buffer{};
    const auto count = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (count > 0) heard_.append(buffer.data(), static_cast<std::size_t>(count));
    return count > 0;
  }

  int fd_;
  std::string heard_;
};

using Script = std::function<void(Client&)>;

std::function<void(int)> as_client(Script script) {
  return [script = std::move(script)](int fd) {
    Client client(fd);
    script(client);
    client.wait_for_the_end();
  };
}

RabbitmqOptions options_for(std::uint16_t port) {
  RabbitmqOptions options;
  options.name = "events";
  options.hosts = {{"127.0.0.1", port}};
  options.exchange.emplace("", addresses::exchange);
  options.routing_key.emplace("{topic}", addresses::routing_key);
  options.encode = encoder({.envelope = Envelope::raw}, bindings::amqp);
  options.connect_timeout = 5s;
  return options;
}

const EventView& an_event() {
  static const EventView event{.id = EventId::make(), .topic = "orders.paid", .type = "paid", .payload = "{}"};
  return event;
}

// What becomes of an event there.
Outcome outcome(const RabbitmqOptions& options) {
  const auto sink = rabbitmq_sink(options, {});
  sink->submit(an_event(), 7);
  std::vector<Outcome> outcomes;
  sink->collect(outcomes, system_clock().steady() + 10s);
  sink->close(system_clock().steady() + 5s);
  return outcomes.empty() ? Outcome{.reason = "none came"} : outcomes.front();
}
Outcome outcome(Script script) {
  const ScriptedServer server(as_client(std::move(script)));
  return outcome(options_for(server.port()));
}

TEST(HostileBroker, AScriptThatIsGoodDelivers) {
  const Outcome found = outcome([](Client& client) {
    client.let_publish();
    client.say(method_of(1, AMQP_BASIC_ACK_METHOD, ack_of(1)));
  });
  EXPECT_EQ(Kind::delivered, found.kind) << found.reason;
  EXPECT_EQ(7U, found.ticket);
}

TEST(HostileBroker, AFrameOfAnotherChannelBeforeLoginIsRefused) {
  const Outcome found = outcome([](Client& client) {
    client.hear("AMQP");
    client.say(frame_of(AMQP_FRAME_HEADER, std::string(14, 'x')));
  });
  EXPECT_EQ(Kind::unavailable, found.kind);
  EXPECT_THAT(found.reason, HasSubstr("channel 1, which is not open"));
}

TEST(HostileBroker, AFrameOfAChannelBeforeItIsOpenedIsRefused) {
  const Outcome found = outcome([](Client& client) {
    client.start();
    client.tune(0);
    client.hear(AMQP_CONNECTION_OPEN_METHOD);
    client.say(method_of(1, AMQP_CHANNEL_CLOSE_METHOD, amqp_channel_close_t{}));
  });
  EXPECT_THAT(found.reason, HasSubstr("channel 1, which is not open"));
}

TEST(HostileBroker, AFrameMaxBelowTheProtocolsIsRefused) {
  for (const std::uint32_t frame_max : {1U, 7U, 8U, 4095U}) {
    const Outcome found = outcome([=](Client& client) {
      client.start();
      client.tune(frame_max);
    });
    EXPECT_EQ(Kind::unavailable, found.kind);
    EXPECT_THAT(found.reason, HasSubstr("AMQP 0-9-1 demands 4096"));
  }
}

TEST(HostileBroker, AReturnedMessageOfAnotherClassEndsTheConnection) {
  const Outcome found = outcome([](Client& client) {
    client.let_publish();
    client.say(method_of(1, AMQP_BASIC_RETURN_METHOD, amqp_basic_return_t{}) +
               header_of(0, 10, number(0xFFFE, 2) + std::string(40, 'x')));
  });
  EXPECT_EQ(Kind::unknown, found.kind);
  EXPECT_THAT(found.reason, HasSubstr("another class than basic"));
}

TEST(HostileBroker, AReturnedMessageWithoutProperPropertiesEndsTheConnection) {
  const Outcome found = outcome([](Client& client) {
    client.let_publish();
    client.say(method_of(1, AMQP_BASIC_RETURN_METHOD, amqp_basic_return_t{}) +
               header_of(0, AMQP_BASIC_CLASS, number(AMQP_BASIC_CONTENT_TYPE_FLAG, 2) + "\x50"));
  });
  EXPECT_THAT(found.reason, HasSubstr("gives back a message that was not sent"));
}

// --- An exception that nobody expects

TEST(SinkThread, AnyExceptionIsATroubleAndNotTheEnd) {
  const ScriptedServer server(as_client([](Client& client) {
    client.let_publish();
    client.say(method_of(1, AMQP_BASIC_ACK_METHOD, ack_of(1)));
  }));
  int calls = 0;
  RabbitmqOptions options = options_for(server.port());
  options.encode = [&calls, encode = options.encode](const EventView& event, Message& message) {
    if (++calls == 1) throw std::bad_alloc();
    if (calls == 2) throw std::length_error("a payload's words");
    return encode(event, message);
  };
  const auto sink = rabbitmq_sink(options, {});
  const auto deliver = [&] {
    sink->submit(an_event(), 1);
    std::vector<Outcome> outcomes;
    sink->collect(outcomes, system_clock().steady() + 10s);
    return outcomes.empty() ? Outcome{.reason = "none came"} : outcomes.front();
  };
  const Outcome first = deliver();
  EXPECT_EQ(Kind::unavailable, first.kind) << "memory is nobody's fault";
  EXPECT_THAT(first.reason, HasSubstr("bad_alloc"));
  const Outcome second = deliver();
  EXPECT_EQ(Kind::retry, second.kind) << "it may be the event's";
  EXPECT_THAT(second.reason, HasSubstr("std::length_error"));
  EXPECT_EQ(Kind::delivered, deliver().kind);
}

// --- The consumer's side

// What comes of a queue there.
MessageSource::Received received(Script script, std::uint16_t prefetch = 20) {
  const ScriptedServer server(as_client(std::move(script)));
  const auto source = rabbitmq_source({.url = "amqp://127.0.0.1:" + std::to_string(server.port()),
                                       .queue = "q",
                                       .prefetch = prefetch,
                                       .message_bytes_max = 1024},
                                      {});
  auto found = source->receive(system_clock().steady() + 10s);
  source->close(system_clock().steady() + 50ms);
  return found;
}

TEST(HostileBroker, ABodyThatIsTooLargeIsNotTakenIn) {
  const auto found = received([](Client& client) {
    client.let_consume();
    client.say(delivery_of(1, 1025) + frame_of(AMQP_FRAME_BODY, std::string(1025, 'x')));
  });
  ASSERT_EQ(1U, found.messages.size());
  EXPECT_THAT(found.messages[0].unreadable, HasSubstr("1025 bytes, and at most 1024"));
  EXPECT_EQ("", found.messages[0].body);
}

TEST(HostileBroker, AMessageWhosePropertiesCannotBeReadIsTheMessagesOwnFault) {
  const auto found = received([](Client& client) {
    client.let_consume();
    client.say(method_of(1, AMQP_BASIC_DELIVER_METHOD, deliver_of(1)) +
               header_of(0, AMQP_BASIC_CLASS, number(AMQP_BASIC_HEADERS_FLAG, 2) + number(100, 4)));
  });
  ASSERT_EQ(1U, found.messages.size());
  EXPECT_THAT(found.messages[0].unreadable, HasSubstr("properties"));
}

TEST(HostileBroker, MoreMessagesThanPrefetchAllowsEndTheConnection) {
  const auto found = received(
      [](Client& client) {
        client.let_consume();
        client.say(delivery_of(1, 0) + delivery_of(2, 0) + delivery_of(3, 0));
      },
      2);
  EXPECT_TRUE(found.lost);
  EXPECT_EQ(0U, found.messages.size());
}

TEST(HostileBroker, ADeliveryTagThatNobodyReachesEndsTheConnection) {
  const auto found = received([](Client& client) {
    client.let_consume();
    client.say(delivery_of(std::uint64_t{1} << 40U, 0));
  });
  EXPECT_TRUE(found.lost);
}

}  // namespace
}  // namespace waybill
