#include "sink/file/file_sink.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace waybill {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Outcome deliver(Sink& sink, const EventView& event) {
  std::vector<Outcome> outcomes;
  sink.submit(event, 1);
  sink.collect(outcomes, Steady{});
  EXPECT_EQ(1U, outcomes.size());
  return outcomes.at(0);
}

class FileSinkTest : public testing::Test {
 protected:
  FileSinkTest() : path_(testing::TempDir() + "/file_sink_test-" + std::to_string(::getpid()) + ".jsonl") {
    std::filesystem::remove(path_);
  }
  ~FileSinkTest() override { std::filesystem::remove(path_); }
  std::string path_;
};

TEST_F(FileSinkTest, AppendsALinePerEvent) {
  const auto sink = file_sink({.path = path_, .fsync = true});
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sink, {.topic = "a", .payload = "1"}).kind);
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sink, {.topic = "b", .payload = "{\n}"}).kind);
  const std::string text = contents(path_);
  EXPECT_EQ(2, std::count(text.begin(), text.end(), '\n'));
  EXPECT_THAT(text, HasSubstr(R"("topic":"a")"));
  EXPECT_THAT(text, HasSubstr(R"("payload":{ }})"));
}

// Of somebody who was killed while he wrote it.
TEST_F(FileSinkTest, ALineThatAnotherHasBrokenOffIsEndedFirst) {
  std::ofstream(path_) << "{}\n{\"id\":";
  const auto sink = file_sink({.path = path_});
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sink, {.topic = "a", .payload = "1"}).kind);
  sink->close({});
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sink, {.topic = "b", .payload = "2"}).kind);
  const std::string text = contents(path_);
  EXPECT_THAT(text, StartsWith("{}\n{\"id\":\n{"));
  EXPECT_EQ(4, std::count(text.begin(), text.end(), '\n'));
}

TEST_F(FileSinkTest, AnOutageIsNotTheEventsFault) {
  const auto sink = file_sink({.path = testing::TempDir() + "/no/such/folder/x"});
  const Outcome outcome = deliver(*sink, {.topic = "a", .payload = "1"});
  EXPECT_EQ(Outcome::Kind::unavailable, outcome.kind);
  EXPECT_THAT(outcome.reason, StartsWith("cannot open"));
}

TEST_F(FileSinkTest, AFullDiskIsAnOutage) {
  const auto sink = file_sink({.path = "/dev/full"});
  const Outcome outcome = deliver(*sink, {.topic = "a", .payload = "1"});
  EXPECT_EQ(Outcome::Kind::unavailable, outcome.kind);
  EXPECT_THAT(outcome.reason, HasSubstr("No space left"));
}

TEST_F(FileSinkTest, AFileThatIsThereAgainIsWrittenTo) {
  const std::string folder = testing::TempDir() + "/file_sink_test_folder-" + std::to_string(::getpid());
  std::filesystem::remove_all(folder);
  const auto sink = file_sink({.path = folder + "/x", .fsync = true});
  EXPECT_EQ(Outcome::Kind::unavailable, deliver(*sink, {.topic = "a", .payload = "1"}).kind);
  std::filesystem::create_directory(folder);
  EXPECT_EQ(Outcome::Kind::delivered, sink->probe({}).kind);
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sink, {.topic = "a", .payload = "1"}).kind);
  std::filesystem::remove_all(folder);
}

// The standard output is another file meanwhile.
class StdoutSinkTest : public testing::Test {
 protected:
  StdoutSinkTest() : saved_(::dup(STDOUT_FILENO)) { std::fflush(stdout); }
  ~StdoutSinkTest() override {
    ::dup2(saved_, STDOUT_FILENO);
    ::close(saved_);
  }

  static void redirect(int fd) { ::dup2(fd, STDOUT_FILENO); }

  const int saved_;
};

TEST_F(StdoutSinkTest, GoesOnAfterAnOutage) {
  const int full = ::open("/dev/full", O_WRONLY);
  const int null = ::open("/dev/null", O_WRONLY);
  const auto sink = stdout_sink();
  redirect(full);
  EXPECT_THAT(deliver(*sink, {.topic = "a", .payload = "1"}).reason, HasSubstr("the standard output: No space left"));
  redirect(null);
  EXPECT_EQ(Outcome::Kind::delivered, sink->probe({}).kind);
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sink, {.topic = "a", .payload = "1"}).kind);
  ::close(full);
  ::close(null);
}

TEST_F(StdoutSinkTest, WaitsForWhoeverReads) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(0, ::pipe2(pipe.data(), O_NONBLOCK | O_CLOEXEC));
  redirect(pipe[1]);
  const auto sink = stdout_sink();
  const std::string payload = '"' + std::string(300'000, 'x') + '"';  // More than a pipe holds.
  sink->submit({.topic = "a", .payload = payload}, 1);
  std::vector<Outcome> outcomes;
  sink->collect(outcomes, {});
  EXPECT_TRUE(outcomes.empty());
  sink->submit({.topic = "b", .payload = "2"}, 2);
  std::string text;
  std::array<char, 65536> buffer{};
  while (outcomes.empty()) {
    for (ssize_t count = 0; (count = ::read(pipe[0], buffer.data(), buffer.size())) > 0;)
      text.append(buffer.data(), static_cast<std::size_t>(count));
    sink->collect(outcomes, {});
  }
  for (ssize_t count = 0; (count = ::read(pipe[0], buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(count));
  ASSERT_EQ(2U, outcomes.size());
  EXPECT_EQ(Outcome::Kind::delivered, outcomes[1].kind);
  EXPECT_EQ(2, std::count(text.begin(), text.end(), '\n'));
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(StdoutSinkTest, ABrokenLineIsEndedFirst) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(0, ::pipe2(pipe.data(), O_NONBLOCK | O_CLOEXEC));
  redirect(pipe[1]);
  const auto sink = stdout_sink();
  const std::string payload = '"' + std::string(300'000, 'x') + '"';
  sink->submit({.topic = "a", .payload = payload}, 1);
  std::vector<Outcome> outcomes;
  sink->collect(outcomes, {});
  sink->close({});
  std::array<char, 65536> buffer{};
  while (::read(pipe[0], buffer.data(), buffer.size()) > 0) continue;
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sink, {.topic = "b", .payload = "2"}).kind);
  ASSERT_GT(::read(pipe[0], buffer.data(), buffer.size()), 2);
  EXPECT_EQ('\n', buffer[0]);
  EXPECT_EQ('{', buffer[1]);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

}  // namespace
}  // namespace waybill
