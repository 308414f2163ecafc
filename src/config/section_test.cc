#include "config/section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_test.h"

namespace waybill::config {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

enum class Start { beginning, now };
constexpr std::array starts{Choice<Start>{"beginning", Start::beginning}, Choice<Start>{"now", Start::now}};

class SectionTest : public ConfigFiles {};

TEST_F(SectionTest, ReadsEveryKindOfValue) {
  write(R"(
    name = "relay-1"
    batch = 500
    fsync = true
    lease = "5s"
    read_ahead = "32MiB"
    start = "now"
    topics = ["a.*", "b"]
    single = "c"
    endless = "unlimited"
  )");
  Config config = load();
  Section root = config.root();
  EXPECT_EQ("relay-1", root.text("name", "", "a name"));
  EXPECT_EQ(500, root.integer("batch", 1, {1, 1000}, ""));
  EXPECT_TRUE(root.boolean("fsync", false, ""));
  EXPECT_EQ(5s, root.duration("lease", 1s, {1s, 1h}, ""));
  EXPECT_EQ(32 << 20, root.byte_size("read_ahead", 1, {1, 1 << 30}, ""));
  EXPECT_EQ(Start::now, root.choice("start", Start::beginning, starts, ""));
  EXPECT_THAT(root.list("topics", ""), ElementsAre("a.*", "b"));
  EXPECT_THAT(root.list("single", ""), ElementsAre("c"));
  EXPECT_EQ(7, root.integer("absent", 7, {1, 9}, ""));
  EXPECT_EQ(3, root.limit("absent", 3, {1, 9}, ""));
  EXPECT_EQ(std::nullopt, root.limit("endless", 3, {1, 9}, ""));
  config.finish();
}

TEST_F(SectionTest, ReportsEveryProblemAtOnceWithItsPlace) {
  write(
      "batch = \"many\"\nlease = 5\nstart = \"nwo\"\nread_ahead = \"1TB\"\nfsync = 1\nlimit = 99\nat = "
      "2026-01-01\n");
  Config config = load();
  Section root = config.root();
  root.integer("batch", 1, {1, 1000}, "");
  root.duration("lease", 1s, {1s, 1h}, "");
  root.choice("start", Start::beginning, starts, "");
  root.byte_size("read_ahead", 1, {1, 1 << 30}, "");
  root.boolean("fsync", false, "");
  root.integer("limit", 1, {1, 10}, "");
  root.text("at", "", "");
  EXPECT_EQ(
      "waybill.toml:1:1: batch: must be a whole number from 1 to 1000; found \"many\"\n"
      "waybill.toml:2:1: lease: must be a duration such as \"250ms\", \"5s\", \"10m\", \"36h\" or \"7d\"; "
      "found "
      "the number 5\n"
      "waybill.toml:3:1: start: must be one of beginning, now; found \"nwo\"; did you mean 'now'?\n"
      "waybill.toml:4:1: read_ahead: must be a size such as \"512B\", \"64KiB\" or \"32MiB\"; found \"1TB\"\n"
      "waybill.toml:5:1: fsync: must be true or false; found the number 1\n"
      "waybill.toml:6:1: limit: must be a whole number from 1 to 10; found 99\n"
      "waybill.toml:7:1: at: must be a text in quotes; found a date or time",
      problems(config));
}

TEST_F(SectionTest, UnknownKeysAreErrorsWithASuggestion) {
  write("bacth = 1\n[destinations.mail]\ntype = \"smtp\"\n[destinations.mail.retry]\n  attemps = 3\n");
  Config config = load();
  Section root = config.root();
  root.integer("batch", 1, {1, 9}, "");
  for (auto& destination : root.named("destinations")) {
    EXPECT_EQ("mail", destination.name());
    destination.text("type", "", "");
    destination.section("retry").integer("attempts", 12, {1, 99}, "");
  }
  EXPECT_EQ(
      "waybill.toml:1:1: bacth: unknown key; did you mean 'batch'?\n"
      "waybill.toml:5:3: destinations.mail.retry.attemps: unknown key; did you mean 'attempts'?",
      problems(config));
}

TEST_F(SectionTest, SaysNothingOfTheKeysOfAnUnknownType) {
  write("[destinations.mail]\ntype = \"smpt\"\nurl = \"smtp://x\"\n[destinations.none]\n");
  Config config = load();
  for (auto& destination : config.root().named("destinations"))
    if (destination.required_choice("type", {"smtp", "file"}, "").empty()) destination.ignore_rest();
  EXPECT_EQ(
      "waybill.toml:2:1: destinations.mail.type: must be one of smtp, file; found \"smpt\"; did you mean "
      "'smtp'?\n"
      "waybill.toml:4:15: destinations.none.type: is missing; it must be one of smtp, file",
      problems(config));
}

TEST_F(SectionTest, ATableIsATable) {
  write("retry = 3\ndestinations = [1]\n");
  Config config = load();
  Section root = config.root();
  EXPECT_EQ(12, root.section("retry").integer("attempts", 12, {1, 99}, ""));
  EXPECT_TRUE(root.named("destinations").empty());
  EXPECT_EQ(
      "waybill.toml:1:1: retry: must be a table; found the number 3\n"
      "waybill.toml:2:1: destinations: must be a table; found a list",
      problems(config));
}

TEST_F(SectionTest, FollowsReferencesAndShowsThemAsWritten) {
  write("token = \"${env:TOKEN}\"\nbatch = \"${env:BATCH}\"\nother = \"${env:GONE}\"\n");
  environment_ = {{"TOKEN", "s3cret"}, {"BATCH", "5"}};
  Config config = load();
  Section root = config.root();
  EXPECT_EQ("s3cret", root.text("token", "", ""));
  EXPECT_EQ(5, root.integer("batch", 1, {1, 9}, ""));
  root.text("other", "", "");
  EXPECT_EQ("\"${env:TOKEN}\"", config.settings()[0].value);
  EXPECT_EQ("waybill.toml:3:1: other: environment variable 'GONE' is not set", problems(config));
}

TEST_F(SectionTest, Security30_SecretsComeFromFilesAndAreNeverShown) {
  write("password_file = \"token.txt\"\nurl = \"amqp://u:s3cret@h/v\"\n", 0600);
  write_file("token.txt", "s3cret\n", 0600);
  Config config = load();
  Section root = config.root();
  EXPECT_EQ("s3cret", root.secret("password", ""));
  EXPECT_EQ("amqp://u:s3cret@h/v", root.url("url", "", ""));
  EXPECT_EQ("", root.secret("absent", ""));
  for (const auto& setting : config.settings()) EXPECT_THAT(setting.value, Not(HasSubstr("s3cret")));
  config.finish();
}

TEST_F(SectionTest, Security30_ASecretOthersCanReadIsRefused) {
  write("password = \"s3cret\"\nurl = \"amqp://u:s3cret@h/v\"\nplain = \"amqp://h/v\"\n", 0644);
  Config config = load();
  Section root = config.root();
  root.secret("password", "");
  root.url("url", "", "");
  root.url("plain", "", "");
  EXPECT_EQ(
      "waybill.toml:1:1: password: holds a secret, and others can read this file (mode 0644); chmod 600 "
      "waybill.toml, or use password_file or ${env:NAME}\n"
      "waybill.toml:2:1: url: holds a secret, and others can read this file (mode 0644); chmod 600 "
      "waybill.toml, or use url_file or ${env:NAME}",
      problems(config));
}

TEST_F(SectionTest, Security30_AFileOfASecretThatOthersCanReadIsRefused) {
  write("password_file = \"token\"\nkey = \"own.key\"\nother = \"gone.key\"\n", 0600);
  write_file("token", "s3cret\n", 0644);
  write_file("own.key", "s3cret\n", 0604);
  Config config = load();
  Section root = config.root();
  EXPECT_EQ("", root.secret("password", ""));
  EXPECT_EQ("own.key", root.secret_path("key", ""));
  EXPECT_EQ("gone.key", root.secret_path("other", ""));
  EXPECT_EQ(
      "waybill.toml:1:1: password_file: 'token' holds a secret, and others can read it (mode 0644); chmod 600 token\n"
      "waybill.toml:2:1: key: 'own.key' holds a secret, and others can read it (mode 0604); chmod 600 own.key",
      problems(config));
}

TEST_F(SectionTest, ASecretOnTheCommandLineIsWarnedOf) {
  write("", 0600);
  environment_ = {{"WORD", "s3cret"}};
  flags_ = {{"store", "postgresql://u:s3cret@db/c", "--store"},
            {"password", "s3cret", "--set password"},
            {"plain", "postgresql://u@db/c", "--set plain"},
            {"token", "${env:WORD}", "--set token"}};
  Config config = load();
  Section root = config.root();
  root.url("store", "", "");
  root.url("plain", "", "");
  root.secret("password", "");
  root.secret("token", "");
  config.finish();
  ASSERT_EQ(2U, config.warnings().size());
  EXPECT_EQ(
      "--store: store: holds a password on the command line, which others can see in the list of processes; use the "
      "environment variable WAYBILL_STORE, store_file or ${env:NAME}",
      config.warnings()[0]);
  EXPECT_THAT(config.warnings()[1], HasSubstr("--set password: password: holds a password on the command line"));
}

TEST_F(SectionTest, Security31_NothingThatIsShownHoldsAPassword) {
  write(
      "servers = [\"nats://u:s3cret@a\", \"u:s3cret@b\"]\npassword = 5317\n"
      "path = \"host=db password=s3cret\"\nmatch = \"http://u:s3cret@h\"\n",
      0600);
  Config config = load();
  Section root = config.root();
  EXPECT_EQ((std::vector<std::string>{"nats://u:s3cret@a", "u:s3cret@b"}), root.addresses("servers", ""));
  root.secret("password", "");
  root.text("path", "", "");
  root.list("match", "");
  for (const auto& setting : config.settings()) EXPECT_THAT(setting.value, Not(HasSubstr("s3cret")));
  EXPECT_EQ("waybill.toml:2:1: password: must be a text in quotes; found a number", problems(config));
}

TEST_F(SectionTest, ASecretIsGivenOnce) {
  write("a = \"x\"\na_file = \"y\"\nb_file = \"gone\"\nc_file = \"empty\"\n", 0600);
  write_file("empty", "\n", 0600);
  Config config = load();
  Section root = config.root();
  for (const auto* key : {"a", "b", "c"}) root.secret(key, "");
  EXPECT_EQ(
      "waybill.toml:2:1: a_file: is given beside a; keep one of them\n"
      "waybill.toml:3:1: b_file: cannot read 'gone'\n"
      "waybill.toml:4:1: c_file: 'empty' is empty",
      problems(config));
}

TEST_F(SectionTest, ADurationMayBeOff) {
  using namespace std::chrono_literals;
  write("a = \"off\"\nb = \"2h\"\nc = \"never\"\n");
  Config config = load();
  Section root = config.root();
  EXPECT_FALSE(root.duration_or_off("a", 1h, {1h, 9h}, ""));
  EXPECT_EQ(2h, root.duration_or_off("b", std::nullopt, {1h, 9h}, ""));
  root.duration_or_off("c", 1h, {1h, 9h}, "");
  EXPECT_FALSE(root.duration_or_off("d", std::nullopt, {1h, 9h}, ""));
  EXPECT_EQ("\"off\"", config.settings()[0].value);
  EXPECT_THAT(problems(config), HasSubstr("waybill.toml:3:1: c: "));
}

TEST_F(SectionTest, OwnersCanRefuseAValue) {
  write("shards = 3\n");
  Config config = load();
  Section root = config.root();
  root.integer("shards", 16, {1, 64}, "");
  root.refuse("shards", "must be a power of two");
  root.refuse("store", "is missing");
  EXPECT_EQ("waybill.toml:1:1: shards: must be a power of two\nwaybill.toml: store: is missing", problems(config));
}

}  // namespace
}  // namespace waybill::config
