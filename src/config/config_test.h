#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "waybill/error.h"

#include "config/config.h"

namespace waybill::config {

// A test in an empty folder of its own, with a configuration in waybill.toml.
class ConfigFiles : public testing::Test {
 protected:
  void SetUp() override {
    before_ = std::filesystem::current_path();
    std::string pattern = testing::TempDir() + "waybill-config-XXXXXX";
    ASSERT_NE(nullptr, ::mkdtemp(pattern.data()));
    folder_ = pattern;
    std::filesystem::current_path(folder_);
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }

  void write_file(const std::string& path, const std::string& text, mode_t mode = 0644) {
    std::ofstream(path, std::ios::binary) << text;
    ::chmod(path.c_str(), mode);
  }
  void write(const std::string& text, mode_t mode = 0644) { write_file("waybill.toml", text, mode); }

  Config load(const std::string& file = "waybill.toml") { return Config({file, environment_, flags_}); }

  static std::string problems(Config& config) {
    try {
      config.finish();
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::fix_config, error.remedy());
      return error.what();
    }
    return "none";
  }

  Environment environment_;
  std::vector<Flag> flags_;
  std::filesystem::path folder_;

 private:
  std::filesystem::path before_;
};

}  // namespace waybill::config
