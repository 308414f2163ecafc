#include "config/config_test.h"

#include <gmock/gmock.h>

namespace waybill::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ConfigTest : public ConfigFiles {
 protected:
  std::string failure(const std::string& file) {
    try {
      load(file);
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::fix_config, error.remedy());
      return error.what();
    }
    return "none";
  }
};

TEST_F(ConfigTest, FlagsBeatEnvironmentBeatsFileBeatsDefault) {
  write("a = 1\nb = 1\nc = 1\n[log]\nlevel = 1\n");
  environment_ = {{"WAYBILL_A", "2"}, {"WAYBILL_B", "2"}, {"WAYBILL_LOG_LEVEL", "2"}};
  flags_ = {{"a", "3", "--set a=3"}};
  Config config = load();
  Section root = config.root();
  for (const auto* key : {"a", "b", "c", "d"}) root.integer(key, 0, {0, 9}, "about it");
  root.section("log").integer("level", 0, {0, 9}, "");
  config.finish();
  std::string shown;
  for (const auto& setting : config.settings())
    shown += setting.key + "=" + setting.value + " " + setting.origin.where + "; ";
  EXPECT_EQ(
      "a=3 --set a=3; b=2 environment WAYBILL_B; c=1 waybill.toml:3:1; d=0 default; "
      "log.level=2 environment WAYBILL_LOG_LEVEL; ",
      shown);
  EXPECT_EQ("about it", config.settings()[0].about);
}

TEST_F(ConfigTest, WrongValuesFromOutsideNameTheirSource) {
  environment_ = {{"WAYBILL_BATCH", "many"}};
  flags_ = {{"lease", "5", "--set lease=5"}, {"bacth", "1", "--set bacth=1"}};
  Config config = load("");
  Section root = config.root();
  root.integer("batch", 1, {1, 9}, "");
  root.duration("lease", std::chrono::seconds(1), {}, "");
  const std::string found = problems(config);
  EXPECT_THAT(found, HasSubstr("environment WAYBILL_BATCH: batch: must be a whole number from 1 to 9"));
  EXPECT_THAT(found, HasSubstr("--set lease=5: lease: must be a duration"));
  EXPECT_THAT(found, HasSubstr("--set bacth=1: unknown key; did you mean 'batch'?"));
}

TEST_F(ConfigTest, LooksForTheFileInOrder) {
  const auto file_used = [&] { return load("").file(); };
  EXPECT_EQ("", file_used());
  std::filesystem::create_directories("xdg/waybill");
  write_file("xdg/waybill/waybill.toml", "");
  environment_["XDG_CONFIG_HOME"] = "xdg";
  EXPECT_EQ("xdg/waybill/waybill.toml", file_used());
  write("");
  EXPECT_EQ("waybill.toml", file_used());
  write_file("other.toml", "");
  environment_["WAYBILL_CONFIG"] = "other.toml";
  EXPECT_EQ("other.toml", file_used());
  write_file("flag.toml", "");
  EXPECT_EQ("flag.toml", load("flag.toml").file());
}

TEST_F(ConfigTest, AFileThatCannotBeReadIsNamed) {
  EXPECT_EQ("gone.toml: cannot read the configuration: No such file or directory", failure("gone.toml"));
  EXPECT_EQ(".: cannot read the configuration: it is a folder", failure("."));
  write("store = \"a\nb\"\n");
  EXPECT_THAT(failure("waybill.toml"), HasSubstr("waybill.toml:1:11: not TOML: "));
  write("a = 1\na = 2\n");
  EXPECT_THAT(failure("waybill.toml"), HasSubstr("waybill.toml:2:"));
  write("a = \"\xff\"\n");
  EXPECT_THAT(failure("waybill.toml"), HasSubstr("waybill.toml:1:"));
  write(std::string("a = \"\0\"\n", 8));
  EXPECT_THAT(failure("waybill.toml"), HasSubstr("waybill.toml:1:"));
}

TEST_F(ConfigTest, TheStoreMayComeFromDatabaseUrl) {
  environment_ = {{"DATABASE_URL", "postgres://db/a"}};
  EXPECT_EQ("postgres://db/a", load("").root().url("store", "", ""));

  write("store = \"postgres://db/b\"\n");
  Config config = load();
  EXPECT_EQ("postgres://db/a", config.root().url("store", "", ""));
  config.finish();
  EXPECT_THAT(config.warnings(), ElementsAre("store: environment DATABASE_URL overrides waybill.toml:1:1"));
}

TEST_F(ConfigTest, TwoVariablesThatDisagreeAreRefused) {
  environment_ = {{"DATABASE_URL", "postgres://u:s3cret@db/a"}, {"WAYBILL_STORE", "postgres://db/b"}};
  Config config = load("");
  config.root().url("store", "", "");
  EXPECT_EQ("environment WAYBILL_STORE and DATABASE_URL name different stores; unset one of them", problems(config));

  environment_["WAYBILL_STORE"] = environment_["DATABASE_URL"];
  Config agreed = load("");
  agreed.root().url("store", "", "");
  EXPECT_EQ("none", problems(agreed));
}

TEST_F(ConfigTest, AFlagSettlesTheDisagreement) {
  environment_ = {{"DATABASE_URL", "postgres://db/a"}, {"WAYBILL_STORE", "postgres://db/b"}};
  flags_ = {{"store", "sqlite:c.db", "--store"}};
  Config config = load("");
  EXPECT_EQ("sqlite:c.db", config.root().url("store", "", ""));
  EXPECT_EQ("none", problems(config));
}

TEST_F(ConfigTest, AMisspeltVariableIsAWarning) {
  environment_ = {{"WAYBILL_STROE", "x"}, {"WAYBILL_SERVICE_HOST", "10.0.0.1"}};
  Config config = load("");
  config.root().url("store", "", "");
  config.finish();
  EXPECT_THAT(config.warnings(),
              ElementsAre("environment WAYBILL_STROE: means nothing; did you mean 'WAYBILL_STORE'?"));
}

}  // namespace
}  // namespace waybill::config
