// Who is let in, and whom we trust.
#include <filesystem>
#include <fstream>

#include "brokers/nats_fixture.h"
#include "brokers/nats_identities.h"

namespace waybill {
namespace {

using testing::AllOf;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

auto says(const std::string& part) {
  return Field(&Outcome::reason, HasSubstr(part));
}

class AccessTest : public NatsTest {
 protected:
  // A stream is made by the sink itself: so whoever gets a delivery through was let in.
  static NatsOptions with_stream(std::uint16_t port) {
    NatsOptions options = NatsTest::options(port);
    options.stream = {.name = "ORDERS", .create = true, .subjects = {"orders.>"}};
    return options;
  }
  Outcome try_once(const NatsOptions& options) {
    const auto sink = nats_sink(options, log());
    return deliver(*sink, event("1"));
  }
  std::string file(const TmpNats& server, const std::string& name, const std::string& text) {
    const std::string path = server.folder() + "/" + name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), 0600);
    return path;
  }
};

// 46
TEST_F(AccessTest, Row46_AWrongPasswordIsNoEventsFault) {
  TmpNats server({.extra_config = "authorization { user: relay, password: right-word }"});
  auto options = with_stream(server.port());
  options.login = {.user = "relay", .password = "wrong-word"};
  EXPECT_THAT(try_once(options), AllOf(Is(Kind::unavailable), says("Authorization Violation"),
                                       Field(&Outcome::reason, Not(HasSubstr("wrong-word")))));
  options.login.password = "right-word";
  EXPECT_THAT(try_once(options), Is(Kind::delivered));
}

TEST_F(AccessTest, ATokenLetsUsIn) {
  TmpNats server({.extra_config = "authorization { token: sesame }"});
  auto options = with_stream(server.port());
  EXPECT_THAT(try_once(options), Is(Kind::unavailable));
  options.login.token = "sesame";
  EXPECT_THAT(try_once(options), Is(Kind::delivered));
}

TEST_F(AccessTest, AnNKeyLetsUsIn) {
  TmpNats server({.extra_config = std::string("authorization { users: [ { nkey: ") + identities::nkey + " } ] }"});
  auto options = with_stream(server.port());
  EXPECT_THAT(try_once(options), Is(Kind::unavailable));
  options.login.nkey = identities::nkey;
  options.login.nkey_seed_file = "/nowhere/seed";
  EXPECT_THAT(try_once(options), AllOf(Is(Kind::unavailable), says("cannot read '/nowhere/seed'")));
  options.login.nkey_seed_file = file(server, "seed", identities::nkey_seed);
  EXPECT_THAT(try_once(options), Is(Kind::delivered));
}

TEST_F(AccessTest, CredentialsLetUsIn) {
  const auto quoted = [](const std::string& text) { return '"' + text + '"'; };
  TmpNats server({.extra_config = "operator: " + quoted(identities::operator_token) + "\nsystem_account: " +
                                  identities::system + "\nresolver: MEMORY\nresolver_preload {\n" + identities::system +
                                  ": " + quoted(identities::system_token) + "\n" + identities::account + ": " +
                                  quoted(identities::account_token) + "\n}"});
  auto options = with_stream(server.port());
  EXPECT_THAT(try_once(options), Is(Kind::unavailable));
  options.login.credentials_file = file(server, "user.creds",
                                        std::string("-----BEGIN NATS USER JWT-----\n") + identities::user_token +
                                            "\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n" +
                                            identities::user_seed + "\n------END USER NKEY SEED------\n");
  EXPECT_THAT(try_once(options), Is(Kind::delivered));
}

std::string rights(const std::string& publish) {
  return "authorization { users: [ { user: relay, password: word, permissions: { publish: [" + publish +
         "], subscribe: [\"_INBOX.>\"] } } ] }";
}

// 46: taken away in the middle of the work, and given back.
TEST_F(AccessTest, Row46_ARightThatIsTakenAwayIsNoEventsFault) {
  TmpNats server({.extra_config = rights(R"("orders.>", "$JS.API.>")")});
  auto options = with_stream(server.port());
  options.login = {.user = "relay", .password = "word"};
  const auto sink = nats_sink(options, log());
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  server.reload(rights(R"("$JS.API.>")"));
  const EventView& second = event("2");
  Outcome outcome;
  const Steady deadline = system_clock().steady() + 30s;
  // The reload ends the connection; that may be what is found out first.
  while ((outcome = deliver(*sink, second)).reason.find("Permissions Violation") == std::string::npos) {
    ASSERT_NE(Kind::delivered, outcome.kind);
    ASSERT_LT(system_clock().steady(), deadline) << outcome.reason;
  }
  EXPECT_THAT(outcome, AllOf(Is(Kind::unavailable), says("orders.paid"), says("grant it")));
  server.reload(rights(R"("orders.>", "$JS.API.>")"));
  while ((outcome = deliver(*sink, second)).kind != Kind::delivered)
    ASSERT_LT(system_clock().steady(), deadline) << outcome.reason;
}

// 46: without it no ack would ever be heard.
TEST_F(AccessTest, Row46_WhoMayNotHearAcksSendsNothing) {
  TmpNats server({.extra_config = "authorization { users: [ { user: relay, password: word, permissions: { "
                                  "publish: \">\", subscribe: \"acks.>\" } } ] }"});
  auto options = with_stream(server.port());
  options.login = {.user = "relay", .password = "word"};
  EXPECT_THAT(try_once(options),
              AllOf(Is(Kind::unavailable), says("Permissions Violation for Subscription"), says("set inbox_prefix")));
  options.inbox_prefix = "acks";
  EXPECT_THAT(try_once(options), Is(Kind::delivered));
}

class NatsTlsTest : public AccessTest {
 protected:
  static Certificates& certificates() {
    static Certificates made;
    return made;
  }
  static NatsOptions secure(const TmpNats& server) {
    NatsOptions options = with_stream(server.port());
    options.tls = {.on = true, .ca = certificates().ca()};
    return options;
  }
};

// 47
TEST_F(NatsTlsTest, Row47_OnlyAServerWithAGoodCertificateIsTalkedTo) {
  TmpNats server({.tls = &certificates()});
  auto options = secure(server);
  EXPECT_THAT(try_once(options), Is(Kind::delivered));
  options.servers[0].name = "localhost";
  EXPECT_THAT(try_once(options), Is(Kind::delivered));
  options.tls.server_name = "broker.example";
  EXPECT_THAT(try_once(options), AllOf(Is(Kind::unavailable), says("ostname mismatch")));
  options.tls = {.on = true, .ca = certificates().other_ca()};
  EXPECT_THAT(try_once(options), AllOf(Is(Kind::unavailable), says("issuer certificate")));
  options.tls = {.on = true, .ca = "/nowhere/ca.pem"};
  EXPECT_THAT(try_once(options), AllOf(Is(Kind::unavailable), says("/nowhere/ca.pem")));
  options.tls = {};
  EXPECT_THAT(try_once(options), Is(Kind::unavailable)) << "never in the clear";
}

// 47
TEST_F(NatsTlsTest, Row47_ACertificateThatIsExpiredOrOfAnotherHostIsRefused) {
  TmpNats expired({.tls = &certificates(), .certificate = certificates().expired()});
  EXPECT_THAT(try_once(secure(expired)), AllOf(Is(Kind::unavailable), says("expired")));
  TmpNats other({.tls = &certificates(), .certificate = certificates().other_host()});
  EXPECT_THAT(try_once(secure(other)), AllOf(Is(Kind::unavailable), says("mismatch")));
}

// 47: a new one on disk counts from the next connection on.
TEST_F(NatsTlsTest, Row47_AnAuthorityThatIsReplacedOnDiskIsUsedAtTheNextConnection) {
  TmpNats server({.tls = &certificates()});
  auto options = secure(server);
  options.tls.ca = server.folder() + "/trusted.pem";
  std::filesystem::copy_file(certificates().other_ca(), options.tls.ca);
  const auto sink = nats_sink(options, log());
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::unavailable));
  std::filesystem::copy_file(certificates().ca(), options.tls.ca, std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(sink->probe(system_clock().steady() + 10s), Is(Kind::delivered));
  EXPECT_THAT(deliver(*sink, event("2")), Is(Kind::delivered));
}

TEST_F(NatsTlsTest, Row47_TellsWhenTheCertificatesRunOut) {
  TmpNats server({.tls = &certificates()});
  const auto sink = nats_sink(secure(server), log());
  EXPECT_EQ(std::nullopt, sink->trusted_until());
  EXPECT_THAT(deliver(*sink, event("1")), Is(Kind::delivered));
  const auto left = std::chrono::round<std::chrono::days>(sink->trusted_until().value() - system_clock().now());
  EXPECT_EQ(Certificates::days, left);
}

TEST_F(NatsTlsTest, AServerThatAsksForACertificateGetsOurs) {
  TmpNats server({.tls = &certificates(), .asks_for_certificates = true});
  auto options = secure(server);
  EXPECT_THAT(try_once(options), Is(Kind::unavailable));
  options.tls.certificate = certificates().client().certificate;
  options.tls.key = certificates().client().key;
  EXPECT_THAT(try_once(options), Is(Kind::delivered));
}

TEST_F(NatsTlsTest, ManyAndLargeOnesGoOverTls) {
  TmpNats server({.tls = &certificates()});
  const auto sink = nats_sink(secure(server), log());
  std::vector<const EventView*> events;
  for (int i = 0; i < 300; ++i) events.push_back(&event(std::string(i % 10 == 0 ? 500'000 : 100, 'x')));
  EXPECT_THAT(deliver(*sink, events), testing::Each(Is(Kind::delivered)));
}

// A server that says nothing in the middle of a handshake.
TEST_F(NatsTlsTest, Row40_AHandshakeInABlackHoleComesToAnEnd) {
  TmpNats server({.tls = &certificates()});
  TcpProxy proxy(server.port());
  auto options = secure(server);
  options.servers[0].port = proxy.port();
  options.connect_timeout = 500ms;
  proxy.black_hole(Direction::to_server);
  const auto sink = nats_sink(options, log());
  EXPECT_THAT(deliver(*sink, event("1")), AllOf(Is(Kind::unavailable), says("no answer within 500 ms")));
  proxy.pass();
  EXPECT_THAT(deliver(*sink, event("2")), Is(Kind::delivered));
}

}  // namespace
}  // namespace waybill
