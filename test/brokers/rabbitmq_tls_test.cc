// Who the sink for RabbitMQ talks to by TLS, and as whom.
#include <filesystem>

#include "brokers/rabbitmq_fixture.h"

namespace waybill {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A server that shows a certificate and speaks no AMQP: a client must not come so far.
class TlsServer {
 public:
  explicit TlsServer(const Certificates::Pair& pair) : port_(static_cast<std::uint16_t>(free_port())) {
    server_ = std::make_unique<ChildProcess>(
        std::vector<std::string>{"openssl", "s_server", "-accept", "127.0.0.1:" + std::to_string(port_), "-cert",
                                 pair.certificate.string(), "-key", pair.key.string(), "-quiet"},
        folder_.path() + "/log");
  }
  std::uint16_t port() const { return port_; }

 private:
  TmpFolder folder_;
  std::uint16_t port_;
  std::unique_ptr<ChildProcess> server_;
};

class RabbitmqTlsTest : public RabbitmqTest {
 protected:
  RabbitmqOptions by_tls(std::uint16_t port = server().tls_port()) const {
    RabbitmqOptions options = this->options(port);
    options.tls.on = true;
    options.tls.ca = certificates().ca().string();
    return options;
  }

  // What is wrong with a server, once it is up.
  std::string refusal_of(const Certificates::Pair& pair) {
    const TlsServer server(pair);
    const auto sink = rabbitmq_sink(by_tls(server.port()), {});
    Outcome outcome;
    for (const Steady end = std::chrono::steady_clock::now() + 30s; std::chrono::steady_clock::now() < end;) {
      outcome = deliver(*sink, event("1"));
      if (outcome.reason.find("refused") == std::string::npos ||
          outcome.reason.find("Connection refused") == std::string::npos)
        break;
      std::this_thread::sleep_for(20ms);
    }
    EXPECT_EQ(Kind::unavailable, outcome.kind);
    return outcome.reason;
  }
};

TEST_F(RabbitmqTlsTest, Row47_OnlyABrokerWithAGoodCertificateIsTalkedTo) {
  EXPECT_EQ(Kind::delivered, deliver(*rabbitmq_sink(by_tls(), {}), event("1")).kind);
  RabbitmqOptions by_name = by_tls();
  by_name.hosts[0].name = "localhost";
  EXPECT_EQ(Kind::delivered, deliver(*rabbitmq_sink(by_name, {}), event("2")).kind);
  by_name.tls.server_name = "rabbit.example";
  EXPECT_THAT(deliver(*rabbitmq_sink(by_name, {}), event("3")).reason, HasSubstr("hostname mismatch"));
  EXPECT_THAT(refusal_of(certificates().expired()), HasSubstr("certificate has expired"));
  EXPECT_THAT(refusal_of(certificates().other_host()), HasSubstr("IP address mismatch"));
  EXPECT_THAT(refusal_of(certificates().other_server()), HasSubstr("its certificate is refused"));
}

TEST_F(RabbitmqTlsTest, Row47_ANewAuthorityOnDiskCountsFromTheNextConnectionOn) {
  const TmpFolder folder;
  const std::string ca = folder.path() + "/ca.pem";
  std::filesystem::copy_file(certificates().other_ca(), ca);
  RabbitmqOptions options = by_tls();
  options.tls.ca = ca;
  const auto sink = rabbitmq_sink(options, {});
  EXPECT_THAT(deliver(*sink, event("1")).reason, AllOf(HasSubstr("its certificate is refused"), HasSubstr("tls_ca")));
  std::filesystem::copy_file(certificates().ca(), ca, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
}

TEST_F(RabbitmqTlsTest, Row47_TellsWhenTheCertificatesRunOut) {
  const auto sink = rabbitmq_sink(by_tls(), {});
  EXPECT_EQ(std::nullopt, sink->trusted_until());
  EXPECT_EQ(Kind::delivered, deliver(*sink, event("1")).kind);
  const auto left = std::chrono::round<std::chrono::days>(sink->trusted_until().value() - system_clock().now());
  EXPECT_EQ(Certificates::days, left);
  const auto in_the_clear = rabbitmq_sink(options(), {});
  EXPECT_EQ(Kind::delivered, deliver(*in_the_clear, event("2")).kind);
  EXPECT_EQ(std::nullopt, in_the_clear->trusted_until());
}

TEST_F(RabbitmqTlsTest, ManyMessagesGoThroughTls) {
  const auto sink = rabbitmq_sink(by_tls(), {});
  for (std::uint64_t i = 0; i < 500; ++i) sink->submit(event('"' + std::string(i * 100, 'x') + '"'), i);
  for (const auto& [ticket, outcome] : collect(*sink, 500))
    ASSERT_EQ(Kind::delivered, outcome.kind) << ticket << ": " << outcome.reason;
  EXPECT_EQ(500U, client_.drain(queue_).size());
}

TEST_F(RabbitmqTlsTest, ACertificateIsALogin) {
  server().control({"add_user", Certificates::client_name, "unused"});
  server().control({"set_permissions", Certificates::client_name, ".*", ".*", ".*"});
  RabbitmqOptions options = by_tls();
  options.sasl = RabbitmqOptions::Sasl::external;
  options.tls.certificate = certificates().client().certificate.string();
  options.tls.key = certificates().client().key.string();
  const Outcome outcome = deliver(*rabbitmq_sink(options, {}), event("1"));
  EXPECT_EQ(Kind::delivered, outcome.kind) << outcome.reason;
  options.tls.key = certificates().server().key.string();
  EXPECT_THAT(deliver(*rabbitmq_sink(options, {}), event("2")).reason, HasSubstr("tls_key"));
}

}  // namespace
}  // namespace waybill
