#include "app/reloads.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace waybill::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ReloadsTest : public testing::Test {
 protected:
  ReloadsTest() {
    settings_.store = "sqlite:a.db";
    settings_.destinations.push_back(
        {.type = "null", .options = {.name = "out"}, .sink = {.make = [](const Log&) { return nullptr; }}});
  }
  ~ReloadsTest() override { std::filesystem::remove(path_); }
  static void eventually(const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(holds());
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  void write(const std::string& text) {
    std::ofstream file(path_);
    file << text;
  }

  const std::string path_ = testing::TempDir() + "waybill-reloads-test-" + std::to_string(::getpid()) + ".toml";
  Settings settings_;
  std::mutex mutex_;
  std::vector<std::string> said_;  // guarded by mutex_
  Log log_{[this](LogLevel /*level*/, std::string_view text, std::span<const LogField> fields) {
    const std::lock_guard lock(mutex_);
    said_.emplace_back(text);
    for (const LogField& field : fields) said_.back() += " " + field.value;
  }};
  Notifier notifier_{{}};
  Reloads reloads_{{.file = path_}, notifier_};
};

constexpr auto good = "store = \"sqlite:a.db\"\nbatch = 7\n[destinations.out]\ntype = \"null\"\n";

TEST_F(ReloadsTest, AGoodFileIsTheNext) {
  write(good);
  reloads_.begin(settings_, log_);
  reloads_.ask();
  EXPECT_EQ(7, reloads_.next()->relay.batch);
}

TEST_F(ReloadsTest, Row85_ABadFileChangesNothing) {
  reloads_.begin(settings_, log_);
  for (const auto* text : {"batch = 0", "store = ", "store = \"sqlite:a.db\"\n"}) {
    write(text);
    const auto before = said().size();
    reloads_.ask();
    eventually([&] { return said().size() > before; });
    EXPECT_THAT(said().back(), HasSubstr("the new configuration is wrong: the old one stays"));
  }
  write(good);
  reloads_.ask();
  EXPECT_EQ(7, reloads_.next()->relay.batch) << "the first that there is";
}

TEST_F(ReloadsTest, WhatIsFixedStays) {
  Settings next = settings_;
  EXPECT_THAT(keep_what_is_fixed(next, settings_), IsEmpty());
  next.store = "sqlite:b.db";
  next.schema = "other";
  next.listen.port = 1;
  next.relay.batch = 9;
  EXPECT_THAT(keep_what_is_fixed(next, settings_), ElementsAre("store", "schema", "listen"));
  EXPECT_EQ("sqlite:a.db", next.store);
  EXPECT_EQ(8780, next.listen.port);
  EXPECT_EQ(9, next.relay.batch);
}

TEST_F(ReloadsTest, AnEarlyRequestIsNotForgotten) {
  write(good);
  reloads_.ask();
  reloads_.begin(settings_, log_);
  EXPECT_TRUE(reloads_.next());
}

TEST_F(ReloadsTest, AfterTheEndThereIsNoNext) {
  write(good);
  reloads_.begin(settings_, log_);
  reloads_.ask();
  reloads_.end();
  EXPECT_FALSE(reloads_.next());
}

// A pipe that nobody writes to is as slow as a file can be.
TEST_F(ReloadsTest, NobodyWaitsForASlowFile) {
  ASSERT_EQ(0, ::mkfifo(path_.c_str(), 0600));
  reloads_.begin(settings_, log_);
  reloads_.ask();
  int pipe = -1;
  // Only when somebody reads.
  eventually([&] { return (pipe = pipe < 0 ? ::open(path_.c_str(), O_WRONLY | O_NONBLOCK) : pipe) >= 0; });
  reloads_.ask();
  reloads_.end();
  EXPECT_FALSE(reloads_.next());
  ::close(pipe);
}

}  // namespace
}  // namespace waybill::app
