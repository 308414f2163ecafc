// What only a source of RabbitMQ has.

#include "waybill/rabbitmq_source.h"

#include "brokers/rabbitmq_fixture.h"

namespace waybill {
namespace {

using testing::HasSubstr;

class RabbitmqSourceTest : public RabbitmqTest {
 protected:
  RabbitmqSourceOptions from(const std::string& queue) const {
    return {.url = server().url(), .queue = queue, .connect_timeout = 30s};
  }
  static std::string refusal(const RabbitmqSourceOptions& options) {
    try {
      rabbitmq_source(options, {})->receive(std::chrono::steady_clock::now() + patience);
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::fix_config, error.remedy());
      return error.what();
    }
    return "it was let in";
  }
  static std::vector<Incoming> receive(MessageSource& source, std::size_t count) {
    std::vector<Incoming> all;
    const Steady end = std::chrono::steady_clock::now() + patience;
    while (all.size() < count && std::chrono::steady_clock::now() < end)
      for (Incoming& one : source.receive(end).messages) all.push_back(std::move(one));
    return all;
  }
  // The broker takes its time.
  bool eventually_has(const std::string& queue, long messages) {
    const Steady end = std::chrono::steady_clock::now() + patience;
    while (client_.count(queue) != messages && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(10ms);
    return client_.count(queue) == messages;
  }
  static void close(MessageSource& source) { source.close(std::chrono::steady_clock::now() + patience); }
};

TEST_F(RabbitmqSourceTest, ADeclaredQueueKeepsWhatIsRejected) {
  RabbitmqSourceOptions declaring = from("declared " + name_);
  declaring.declare = {.on = true, .exchange = exchange_, .bindings = {"orders.*"}, .delivery_limit = 7};
  const auto source = rabbitmq_source(declaring, {});
  EXPECT_TRUE(source->receive(std::chrono::steady_clock::now() + 10ms).messages.empty());
  while (source->is_away()) source->receive(std::chrono::steady_clock::now() + 10ms);
  EXPECT_TRUE(source->keeps_rejected());
  const auto sink = rabbitmq_sink(options(), {});
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("2")).kind);
  const auto come = receive(*source, 2);
  ASSERT_EQ(2U, come.size());
  source->reject(come[0].ticket, "no");
  source->accept(come[1].ticket);
  close(*source);
  EXPECT_TRUE(eventually_has(declaring.queue, 0));
  EXPECT_TRUE(eventually_has(declaring.queue + ".dead", 1));
  const auto dead = client_.drain(declaring.queue + ".dead");
  ASSERT_EQ(1U, dead.size());
  EXPECT_EQ("1", dead[0].body);
}

TEST_F(RabbitmqSourceTest, WhereNobodySaysSoRejectedMessagesCountAsLost) {
  const auto sink = rabbitmq_sink(options(), {});
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
  const auto source = rabbitmq_source(from(queue_), {});
  EXPECT_EQ(1U, receive(*source, 1).size());
  EXPECT_FALSE(source->keeps_rejected());
  close(*source);
  EXPECT_TRUE(eventually_has(queue_, 1)) << "it was given back";
}

TEST_F(RabbitmqSourceTest, MoreThanThePrefetchIsNotHandedOut) {
  const auto sink = rabbitmq_sink(options(), {});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Kind::delivered, deliver(*sink, event(std::to_string(i))).kind);
  RabbitmqSourceOptions few = from(queue_);
  few.prefetch = 2;
  const auto source = rabbitmq_source(few, {});
  const auto first = receive(*source, 2);
  ASSERT_EQ(2U, first.size());
  EXPECT_TRUE(source->receive(std::chrono::steady_clock::now() + 300ms).messages.empty());
  source->accept(first[0].ticket);
  const auto next = receive(*source, 1);
  ASSERT_EQ(1U, next.size());
  EXPECT_EQ("2", next[0].body);
}

TEST_F(RabbitmqSourceTest, OverTls) {
  RabbitmqSourceOptions secure = from(queue_);
  secure.url = "amqps://guest:guest@127.0.0.1:" + std::to_string(server().tls_port());
  secure.tls_ca = certificates().ca();
  const auto sink = rabbitmq_sink(options(), {});
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
  const auto source = rabbitmq_source(secure, {});
  EXPECT_EQ("1", receive(*source, 1).at(0).body);
}

TEST_F(RabbitmqSourceTest, WhoeverIsRefusedIsTold) {
  EXPECT_THAT(refusal(from("nowhere")), HasSubstr("queue 'nowhere' is not there"));
  RabbitmqSourceOptions wrong = from(queue_);
  wrong.url = "amqp://guest:wrong@127.0.0.1:" + std::to_string(server().port());
  EXPECT_THAT(refusal(wrong), HasSubstr("check user, password"));
  RabbitmqSourceOptions another = from(queue_);
  another.declare = {.on = true};
  EXPECT_THAT(refusal(another), HasSubstr("cannot be declared")) << "it is there, without a dead letter exchange";
}

// More than a frame.
TEST_F(RabbitmqSourceTest, ALargeMessageComesWhole) {
  const std::string large = '"' + std::string(700'000, 'x') + '"';
  const auto sink = rabbitmq_sink(options(), {});
  EXPECT_EQ(Kind::delivered, deliver(*sink, event(large)).kind);
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("")).kind);
  const auto source = rabbitmq_source(from(queue_), {});
  const auto come = receive(*source, 2);
  ASSERT_EQ(2U, come.size());
  EXPECT_EQ(large, come[0].body);
  EXPECT_EQ("", come[1].body);
}

}  // namespace
}  // namespace waybill
