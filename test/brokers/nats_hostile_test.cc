// Servers that are not as a server should be: what they say is a script.
#include <array>
#include <functional>

#include <sys/socket.h>
#include <unistd.h>

#include "brokers/nats_fixture.h"
#include "support/scripted_server.h"

namespace waybill {
namespace {

using testing::AllOf;
using testing::Field;
using testing::HasSubstr;

constexpr const char* greeting = "INFO {\"headers\":true,\"max_payload\":1048576}\r\n";

// One client, as a server has it.
class Client {
 public:
  explicit Client(int fd) : fd_(fd) {}
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void say(std::string_view text) {
    while (!text.empty()) {
      const auto count = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  // Listens until it has said `wanted`, or is gone. Returns the rest of that line.
  std::string hear(const std::string& wanted) {
    std::size_t at = 0;
    while ((at = heard_.find(wanted)) == std::string::npos || heard_.find('\n', at) == std::string::npos) {
      std::array<char, 65536> buffer{};
      const auto count = ::recv(fd_, buffer.data(), buffer.size(), 0);
      if (count <= 0) return {};
      heard_.append(buffer.data(), static_cast<std::size_t>(count));
    }
    const std::string line = heard_.substr(at + wanted.size(), heard_.find('\n', at) - at - wanted.size());
    heard_.erase(0, heard_.find('\n', at) + 1);
    return line;
  }
  void let_in() {
    say(greeting);
    hear("PING");
    say("PONG\r\n");
  }
  // Where the ack of the next message is to go.
  std::string inbox() {
    const std::string line = hear("HPUB orders.paid ");
    return line.substr(0, line.find(' '));
  }
  void wait_for_the_end() { hear("never said"); }

 private:
  int fd_;
  std::string heard_;
};

class HostileTest : public NatsTest {
 protected:
  // What becomes of an event there.
  Outcome outcome(std::function<void(Client&)> script, std::chrono::milliseconds heartbeat = 5s) {
    ScriptedServer server([script = std::move(script)](int fd) {
      Client client(fd);
      script(client);
    });
    auto options = NatsTest::options(server.port());
    options.connect_timeout = 2s;
    options.heartbeat = heartbeat;
    const auto sink = nats_sink(options, log());
    Outcome found = deliver(*sink, event("1"));
    sink->close(system_clock().steady() + 10s);
    return found;
  }
};

auto says(const std::string& part) {
  return Field(&Outcome::reason, HasSubstr(part));
}

TEST_F(HostileTest, AScriptThatIsGoodDelivers) {
  const Outcome found = outcome([](Client& client) {
    client.let_in();
    const std::string ack = R"({"stream":"S", "seq":1})";
    client.say("MSG " + client.inbox() + " 1 " + std::to_string(ack.size()) + "\r\n" + ack + "\r\n");
    client.wait_for_the_end();
  });
  EXPECT_THAT(found, Is(Kind::delivered));
}

TEST_F(HostileTest, AMessageForASubscriptionThatWeDoNotHaveIsIgnored) {
  const Outcome found = outcome([](Client& client) {
    client.let_in();
    const std::string ack = R"({"stream":"S", "seq":1})";
    const std::string inbox = client.inbox();
    client.say("MSG any 2 0\r\n\r\nMSG any 3 0\r\n\r\n");
    client.say("MSG " + inbox + " 1 " + std::to_string(ack.size()) + "\r\n" + ack + "\r\n");
    client.wait_for_the_end();
  });
  EXPECT_THAT(found, Is(Kind::delivered));
}

TEST_F(HostileTest, AnAckThatComesWithTheEndCounts) {
  const Outcome found = outcome([](Client& client) {
    client.let_in();
    const std::string ack = R"({"stream":"S", "seq":1})";
    client.say("MSG " + client.inbox() + " 1 " + std::to_string(ack.size()) + "\r\n" + ack +
               "\r\n-ERR 'Stale Connection'\r\n");
  });
  EXPECT_THAT(found, Is(Kind::delivered));
}

TEST_F(HostileTest, HalfAnAckIsNone) {
  const Outcome found = outcome([](Client& client) {
    client.let_in();
    client.say("MSG " + client.inbox() + " 1 23\r\n{\"stream\":\"S\", \"seq\":1}");
  });
  EXPECT_THAT(found, AllOf(Is(Kind::unknown), says("closed the connection")));
}

TEST_F(HostileTest, AcksOfWhatWasNotSentAreNobodys) {
  const Outcome found = outcome([](Client& client) {
    client.let_in();
    const std::string inbox = client.inbox();
    const std::string before = inbox.substr(0, inbox.rfind('.') + 1);
    for (const char* number : {"0", "2", "99999999999999999999", "", "x", "q1", "1.1"})
      client.say("MSG " + before + number + " 1 23\r\n{\"stream\":\"S\", \"seq\":1}\r\n");
    client.say("MSG other.1 1 23\r\n{\"stream\":\"S\", \"seq\":1}\r\n");
    client.say("-ERR 'that was all'\r\n");
  });
  EXPECT_THAT(found, AllOf(Is(Kind::unknown), says("that was all")));
}

TEST_F(HostileTest, WhyTheServerHangsUpIsSaid) {
  const Outcome found = outcome([](Client& client) {
    client.let_in();
    client.inbox();
    client.say("-ERR 'Stale Connection'\r\n");
  });
  EXPECT_THAT(found, AllOf(Is(Kind::unknown), says("Stale Connection")));
}

TEST_F(HostileTest, WhoSpeaksSomethingElseIsLeft) {
  EXPECT_THAT(outcome([](Client& client) { client.say("SSH-2.0-OpenSSH_9.2p1\r\n"); }),
              AllOf(Is(Kind::unavailable), says("does not speak NATS")));
  EXPECT_THAT(outcome([](Client& client) { client.say(std::string(200'000, 'x')); }),
              AllOf(Is(Kind::unavailable), says("does not speak NATS")));
  EXPECT_THAT(outcome([](Client& client) { client.say("INFO {\"headers\":\r\n"); }),
              AllOf(Is(Kind::unavailable), says("does not speak NATS")));
  EXPECT_THAT(outcome([](Client& client) { client.say("INFO {}\r\n"); }),
              AllOf(Is(Kind::unavailable), says("headers")));
}

TEST_F(HostileTest, AMessageWithoutEndIsNotWaitedFor) {
  const Outcome found = outcome([](Client& client) {
    client.let_in();
    client.say("MSG " + client.inbox() + " 1 9999999999\r\n" + std::string(1'000'000, 'x'));
    client.wait_for_the_end();
  });
  EXPECT_THAT(found, AllOf(Is(Kind::unknown), says("larger than any answer")));
}

TEST_F(HostileTest, WhoOnlyPingsIsAnsweredAndGivenUpInTime) {
  const Outcome found = outcome([](Client& client) {
    client.say(greeting);
    const Steady end = system_clock().steady() + 4s;
    while (system_clock().steady() < end) client.say("PING\r\n");
  });
  EXPECT_THAT(found, AllOf(Is(Kind::unavailable), says("no answer within 2000 ms")));
}

TEST_F(HostileTest, WhoAsksForASignOfLifeGetsOne) {
  const Outcome found = outcome([](Client& client) {
    client.let_in();
    const std::string inbox = client.inbox();
    client.say("PING\r\n");
    client.hear("PONG");
    client.say("MSG " + inbox + " 1 23\r\n{\"stream\":\"S\", \"seq\":1}\r\n");
    client.wait_for_the_end();
  });
  EXPECT_THAT(found, Is(Kind::delivered));
}

TEST_F(HostileTest, WhoIsSilentIsAskedAndGivenUp) {
  const Outcome found = outcome(
      [](Client& client) {
        client.let_in();
        client.wait_for_the_end();
      },
      200ms);
  EXPECT_THAT(found, AllOf(Is(Kind::unknown), says("no sign of life for 400 ms")));
}

}  // namespace
}  // namespace waybill
