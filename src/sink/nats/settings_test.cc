#include "sink/nats/settings.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_test.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class NatsSettings : public config::ConfigFiles {
 protected:
  std::string read(const std::string& toml) {
    write(toml);
    config::Config config = load();
    config::Section section = config.root();
    setup_ = read_nats(section, 1min);
    keys_.clear();
    for (const auto& setting : config.settings()) keys_.push_back(setting.key);
    return problems(config);
  }

  SinkSetup setup_;
  std::vector<std::string> keys_;
};

// 192.0.2.0/24 is nobody's.
TEST_F(NatsSettings, APasswordThatIsSentUnencryptedIsWarnedOf) {
  const auto warned = [&](const std::string& toml) {
    EXPECT_EQ("none", read(toml));
    const auto findings = setup_.examine(system_clock().steady() + 10ms);
    return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
      return finding.what == "login" && finding.level == Finding::Level::warning;
    });
  };
  environment_ = {{"WORD", "w"}};
  const std::string user = "user = \"u\"\npassword = \"${env:WORD}\"\n";
  EXPECT_TRUE(warned("servers = \"nats://192.0.2.1\"\n" + user));
  EXPECT_TRUE(warned("servers = [\"127.0.0.1:1\", \"192.0.2.1\"]\ntoken = \"${env:WORD}\"\n"));
  EXPECT_FALSE(warned("servers = \"tls://192.0.2.1\"\n" + user));
  EXPECT_FALSE(warned("servers = \"nats://127.0.0.1:1\"\n" + user));
  EXPECT_FALSE(warned("servers = \"nats://192.0.2.1\"\n"));
}

TEST_F(NatsSettings, NeedOnlyAServer) {
  EXPECT_EQ(read("servers = \"nats://127.0.0.1:4222\"\n"), "none");
  EXPECT_TRUE(setup_.make && setup_.preview && setup_.examine);
  const EventView event{.topic = "orders", .payload = "{}", .metadata = "{}", .headers = "{}"};
  EXPECT_EQ("orders", setup_.preview(event).address);
  EXPECT_THAT(read(""), HasSubstr("servers"));
}

const std::string all = R"(
servers = ["nats://a:4222", "b", "tls://[::1]:4333"]
credentials_file = "user.creds"
tls_ca = "ca.pem"
tls_certificate = "own.pem"
tls_key = "own.key"
tls_server_name = "nats.example"
stream = "ORDERS"
domain = "hub"
create = true
subjects = ["orders.>"]
replicas = 3
retention = "workqueue"
discard = "old"
max_age = "30d"
max_bytes = "10GiB"
max_messages = 1000
duplicate_window = "15m"
subject = "orders.{type}"
inbox_prefix = "_INBOX.waybill"
envelope = "waybill"
in_flight_max = 500
connect_timeout = "3s"
ack_timeout = "10s"
heartbeat = "2s"
)";

TEST_F(NatsSettings, AreAllTaken) {
  EXPECT_EQ("none", read(all));
}

std::string contents(const std::string& path) {
  std::ifstream file(std::string(WAYBILL_SOURCE_DIR) + path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

TEST_F(NatsSettings, AreAllOnTheirPage) {
  ASSERT_EQ("none", read(all));
  EXPECT_GT(keys_.size(), 25U);
  const std::string page = contents("/docs/nats.md");
  for (const std::string& key : keys_) EXPECT_THAT(page, HasSubstr("`" + key + "`"));
}

TEST_F(NatsSettings, OfTheExampleAreGood) {
  const std::string example = contents("/examples/nats.toml");
  std::string keys;
  std::istringstream lines(example.substr(example.find("type = \"nats\"")));
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("type") && !line.starts_with("retry")) keys += line + "\n";
  EXPECT_EQ("none", read(keys));
}

TEST_F(NatsSettings, ThatAreWrongAreNamed) {
  const std::string said = read(R"(
servers = "nats://user:secret-word@host:4222"
user = "a"
token = "b"
nkey = "U1"
stream = "no.dots"
create = true
subject = "orders.*"
inbox_prefix = "x."
)");
  for (const char* part : {"servers", "more than one way", "'nkey': both, or neither", "must not contain", "subjects",
                           "subject", "inbox_prefix", "password"})
    EXPECT_THAT(said, HasSubstr(part));
  EXPECT_THAT(said, Not(HasSubstr("secret-word")));
}

TEST_F(NatsSettings, OfAStreamThatIsNotMadeAreUnknown) {
  EXPECT_THAT(read("servers = \"h\"\nreplicas = 3\n"), HasSubstr("replicas"));
  EXPECT_THAT(read("servers = \"h\"\ntls_ca = \"ca.pem\"\n"), HasSubstr("tls_ca"));
}

TEST(SubjectPatternTest, MatchesWhatTheTemplateComesTo) {
  EXPECT_EQ("orders.paid", subject_pattern("orders.paid"));
  EXPECT_EQ("events.a.>", subject_pattern("events.a.{type}.x"));
  EXPECT_EQ("events.>", subject_pattern("events.x{type}"));
  EXPECT_EQ(">", subject_pattern("{topic}"));
}

}  // namespace
}  // namespace waybill
