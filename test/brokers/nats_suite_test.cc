// NATS passes the suite for sinks, through a bad network.
#include "brokers/nats_fixture.h"
#include "conformance/sink_suite.h"
#include "message/binding.h"

namespace waybill {
namespace {

constexpr const char* password = "keep-this-quiet";

// One for all checks; whoever does not say who he is may look.
TmpNats& server() {
  static TmpNats made({.extra_config = std::string("authorization { users = [ { user: suite, password: \"") + password +
                                       "\" }, { user: reader, password: reader } ] }\nno_auth_user: reader\n"});
  return made;
}

class NatsUnderTest final : public SinkUnderTest {
 public:
  // The topics and routing keys of the suite. No two streams can have the same, so it goes in the end.
  NatsUnderTest() {
    static const char* subjects[]{"orders", "orders.>"};
    jsStreamConfig config = reader_.config(stream, subjects[0]);
    config.Subjects = subjects;
    config.SubjectsLen = 2;
    reader_.add(config);
  }
  ~NatsUnderTest() override { reader_.remove(stream); }

  std::unique_ptr<Sink> make() override {
    NatsOptions options;
    options.servers = {{.name = "127.0.0.1", .port = proxy_.port()}};
    options.login = {.user = "suite", .password = password};
    options.stream.name = stream;
    options.encode = encoder({.envelope = Envelope::raw}, bindings::nats);
    options.connect_timeout = 1s;
    options.ack_timeout = 2s;
    options.heartbeat = 500ms;
    return nats_sink(std::move(options), {});
  }

  std::vector<Arrival> arrivals() override {
    for (const std::uint64_t count = reader_.count(stream); arrivals_.size() < count;) {
      const auto stored = reader_.message(stream, arrivals_.size() + 1);
      arrivals_.push_back({stored.headers.at("Nats-Msg-Id"), stored.body});
    }
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

  // A message has at most 1 MiB, with its headers.
  std::set<std::string> refused() const override { return {"one_mebibyte"}; }
  std::vector<std::string> secrets() const override { return {password}; }

 private:
  static constexpr const char* stream = "suite";

  NatsReader reader_{server()};
  TcpProxy proxy_{server().port()};
  std::vector<Arrival> arrivals_;
};

INSTANTIATE_TEST_SUITE_P(Nats, SinkSuite, every_sink_check("nats", [] { return std::make_unique<NatsUnderTest>(); }),
                         sink_check_name);

}  // namespace
}  // namespace waybill
