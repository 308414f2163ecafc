#include "broker/nats/login.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "waybill/error.h"

namespace waybill::nats {
namespace {

using testing::HasSubstr;
using testing::Not;

ServerInfo info(std::string_view json) {
  ServerInfo made;
  made.update(json);
  return made;
}

template <typename Doing>
std::string refusal(const Doing& doing) {
  try {
    doing();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(ServerInfoTest, IsWhatTheServerSays) {
  const ServerInfo said = info(
      R"({"server_id":"N","headers":true,"max_payload":1048576,"tls_required":true,"nonce":"abc","connect_urls":["a"]})");
  EXPECT_TRUE(said.takes_headers && said.wants_tls && !said.offers_tls && !said.lame);
  EXPECT_EQ(1'048'576U, said.max_payload);
  EXPECT_EQ("abc", said.nonce);
}

TEST(ServerInfoTest, ChangesInWhatIsSaidAgain) {
  ServerInfo said = info(R"({"headers":true,"max_payload":1000})");
  said.update(R"({"ldm":true})");
  EXPECT_TRUE(said.lame && said.takes_headers);
  EXPECT_EQ(1'000U, said.max_payload);
  said.update(R"({"max_payload":-1})");
  EXPECT_EQ(std::numeric_limits<std::size_t>::max(), said.max_payload) << "no limit";
}

TEST(ServerInfoTest, WhatCannotBeReadIsRefused) {
  for (const char* json : {"", "{", "hello", R"({"max_payload":"large"})", R"({"nonce":7})", R"({"headers":"\xFF"})"})
    EXPECT_THAT(refusal([&] { info(json); }), HasSubstr("does not speak NATS")) << json;
}

TEST(ServerInfoTest, AServerMustFitWhatWeWant) {
  const auto said = [](std::string_view json, bool tls) { return refusal([&] { check_server(info(json), tls); }); };
  EXPECT_EQ("none", said(R"({"headers":true})", false));
  EXPECT_EQ("none", said(R"({"headers":true,"tls_available":true})", true));
  EXPECT_EQ("none", said(R"({"headers":true,"tls_available":true})", false));
  EXPECT_EQ("none", said(R"({"headers":true,"tls_required":true})", true));
  EXPECT_THAT(said(R"({"headers":true,"tls_required":true})", false), HasSubstr("only over TLS"));
  EXPECT_THAT(said(R"({"headers":true})", true), HasSubstr("no TLS"));
  EXPECT_THAT(said(R"({})", false), HasSubstr("headers"));
}

nlohmann::json connect(const NatsLogin& login) {
  NatsServers options;
  options.login = login;
  const std::string line = connect_line(options, {});
  EXPECT_TRUE(line.starts_with("CONNECT {") && line.ends_with("}\r\n"));
  return nlohmann::json::parse(line.substr(8));
}

TEST(LoginTest, SaysWhoWeAre) {
  const auto nobody = connect({});
  EXPECT_EQ(1, nobody["protocol"]);
  EXPECT_EQ(true, nobody["headers"]);
  EXPECT_EQ(true, nobody["no_responders"]);
  EXPECT_EQ(false, nobody["verbose"]);
  for (const char* name : {"user", "pass", "auth_token", "nkey", "jwt", "sig"}) EXPECT_FALSE(nobody.contains(name));
  const auto user = connect({.user = "relay", .password = "a \"b\"\r\nPUB x 0"});
  EXPECT_EQ("relay", user["user"]);
  EXPECT_EQ("a \"b\"\r\nPUB x 0", user["pass"]) << "and it is one line";
  EXPECT_EQ("sesame", connect({.token = "sesame"})["auth_token"]);
}

TEST(LoginTest, WhatCannotBeSaidIsNotShown) {
  const std::string said = refusal([] { connect({.user = "relay", .password = "hush\xFF"}); });
  EXPECT_THAT(said, HasSubstr("not UTF-8"));
  EXPECT_THAT(said, Not(HasSubstr("hush")));
}

TEST(LoginTest, AKeyMustBeThatOfItsSeed) {
  const std::string path = testing::TempDir() + "waybill-seed-" + std::to_string(::getpid());
  std::ofstream(path) << "SUAIJPDN5P4CWZGGGXTCKOYLJI2AIBHN5TYFBY5DOBRWXXLFWORFAZ6UWA";
  NatsServers options;
  options.login = {.nkey = "UCYWGYNAZVMFZKNQQDNL5USFQR2GEWBVK74IKLLLA4ZOLOLSAOA2V3YF", .nkey_seed_file = path};
  ::chmod(path.c_str(), 0644);
  EXPECT_THAT(refusal([&] { connect_line(options, {.nonce = "abc"}); }), HasSubstr("others can read it (mode 0644)"));
  ::chmod(path.c_str(), 0600);
  EXPECT_THAT(connect_line(options, {.nonce = "abc"}), HasSubstr("\"sig\":"));
  options.login.nkey = "UAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
  const std::string said = refusal([&] { connect_line(options, {.nonce = "abc"}); });
  EXPECT_THAT(said, testing::AllOf(HasSubstr(path), HasSubstr("not that of 'nkey'"), Not(HasSubstr("SUAI"))));
  std::filesystem::remove(path);
}

TEST(LoginTest, AKeyNeedsANonce) {
  EXPECT_THAT(refusal([] { connect({.nkey = "UC", .nkey_seed_file = "/nowhere"}); }), HasSubstr("by an nkey"));
}

}  // namespace
}  // namespace waybill::nats
