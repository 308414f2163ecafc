#include "broker/nats/nkey.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "waybill/error.h"

namespace waybill::nats {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Made for this test, and of use to nobody.
const std::string seed = "SUAIJPDN5P4CWZGGGXTCKOYLJI2AIBHN5TYFBY5DOBRWXXLFWORFAZ6UWA";
const std::string public_key = "UCYWGYNAZVMFZKNQQDNL5USFQR2GEWBVK74IKLLLA4ZOLOLSAOA2V3YF";

template <typename Doing>
std::string refusal(const Doing& doing) {
  try {
    doing();
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_config, error.remedy());
    return error.what();
  }
  return "none";
}

TEST(NkeyTest, KnowsItsPublicKey) {
  EXPECT_EQ(public_key, Nkey(seed).public_key());
}

TEST(NkeyTest, SignsTheSameTheSameWay) {
  const Nkey key(seed);
  EXPECT_EQ(86U, key.sign("nonce").size()) << "64 bytes, without padding";
  EXPECT_EQ(key.sign("nonce"), key.sign("nonce"));
  EXPECT_NE(key.sign("nonce"), key.sign("nonsense"));
  EXPECT_EQ(std::string::npos, key.sign("nonce").find_first_of("+/="));
}

TEST(NkeyTest, Security31_WhatIsNoSeedIsRefusedAndNotShown) {
  std::string damaged = seed;
  damaged[20] = damaged[20] == 'A' ? 'B' : 'A';
  for (const std::string& text :
       {std::string(), std::string("S"), damaged, seed + "A", seed.substr(1), public_key, seed.substr(0, 57) + "1"})
    EXPECT_THAT(refusal([&] { (void)Nkey(text); }), AllOf(HasSubstr("no seed"), Not(HasSubstr("SUAI")))) << text;
}

class KeyFilesTest : public testing::Test {
 protected:
  ~KeyFilesTest() override { std::filesystem::remove(path_); }
  const std::string& file(const std::string& text) {
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), 0600);
    return path_;
  }

 private:
  const std::string path_ =
      std::filesystem::temp_directory_path() / ("waybill-nkey-" + std::to_string(::getpid()) + ".txt");
};

TEST_F(KeyFilesTest, AFileOfCredentialsIsReadAsNscMakesIt) {
  const Credentials read = read_credentials(file(
      "-----BEGIN NATS USER JWT-----\r\neyJ0.eyJq.c2ln\r\n------END NATS USER JWT------\r\n\r\n"
      "************************* IMPORTANT *************************\n"
      "NKEY Seed printed below can be used to sign and prove identity.\n"
      "NKEYs are sensitive and should be treated as secrets.\n\n"
      "-----BEGIN USER NKEY SEED-----\n" +
      seed + "\n------END USER NKEY SEED------\n\n*************************************************************\n"));
  EXPECT_EQ("eyJ0.eyJq.c2ln", read.token);
  EXPECT_EQ(seed, read.seed);
}

TEST_F(KeyFilesTest, ASeedStandsAloneOrBetweenDashes) {
  EXPECT_EQ(seed, read_seed(file(seed)));
  EXPECT_EQ(seed, read_seed(file("  " + seed + " \r\n")));
  EXPECT_EQ(seed, read_seed(file("-----BEGIN USER NKEY SEED-----\n" + seed + "\n------END USER NKEY SEED------\n")));
}

TEST_F(KeyFilesTest, WhatIsWrongWithAFileIsSaidWithoutWhatIsInIt) {
  const auto said = [&](const std::string& text) { return refusal([&] { read_credentials(file(text)); }); };
  EXPECT_THAT(said("-----BEGIN X-----\nsecret\n------END X------\n"),
              AllOf(HasSubstr("token"), Not(HasSubstr("secret"))));
  EXPECT_THAT(said(""), HasSubstr("no file of credentials"));
  EXPECT_THAT(refusal([&] { read_seed(file("\n")); }), HasSubstr("no seed"));
  EXPECT_EQ("cannot read '/nowhere/seed'", refusal([] { read_seed("/nowhere/seed"); }));
}

}  // namespace
}  // namespace waybill::nats
