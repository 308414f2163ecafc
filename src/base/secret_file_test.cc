#include "base/secret_file.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "waybill/error.h"

namespace waybill {
namespace {

class SecretFileTest : public testing::Test {
 protected:
  ~SecretFileTest() override { std::filesystem::remove(path_); }
  void write(const std::string& text, mode_t mode) const {
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), mode);
  }
  std::string refusal(std::size_t bytes_max = 100) const {
    try {
      read_secret_file(path_, bytes_max);
      return "none";
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::fix_config, error.remedy());
      return error.what();
    }
  }

  const std::string path_ =
      std::filesystem::temp_directory_path() / ("waybill-secret-" + std::to_string(::getpid()) + ".txt");
};

TEST_F(SecretFileTest, IsReadIfNobodyElseCan) {
  write("s3cret", 0600);
  EXPECT_EQ("s3cret", read_secret_file(path_));
  EXPECT_EQ("", exposure(path_));
  EXPECT_EQ(fmt::format("'{}' is too large", path_), refusal(5));
}

TEST_F(SecretFileTest, Security30_IsRefusedIfOthersCanReadIt) {
  for (const mode_t mode : {0644, 0604, 0666, 0620}) {
    write("s3cret", mode);
    EXPECT_EQ(fmt::format("'{0}' holds a secret, and others can read it (mode {1:04o}); chmod 600 {0}", path_, mode),
              refusal());
    EXPECT_NE("", exposure(path_));
  }
}

TEST_F(SecretFileTest, OneThatIsNotThereIsNamed) {
  EXPECT_EQ(fmt::format("cannot read '{}'", path_), refusal());
  EXPECT_EQ("", exposure(path_));
}

TEST(Exposure, TheGroupMayReadWhatBelongsToRoot) {
  struct stat about {};
  about.st_mode = S_IFREG | 0640;
  EXPECT_FALSE(is_exposed(about));
  about.st_uid = 1000;
  EXPECT_TRUE(is_exposed(about));
  about.st_mode = S_IFREG | 0600;
  EXPECT_FALSE(is_exposed(about));
}

}  // namespace
}  // namespace waybill
