#include "sink/file/file_sink.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace waybill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::StartsWith;
using testing::UnorderedElementsAre;

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// One member of each line that is a JSON object, as text. Other lines are not events.
std::vector<std::string> whole_lines(const std::string& path, const std::string& member) {
  std::vector<std::string> found;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (!event.is_object()) continue;
    const auto& value = event.at(member);
    found.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
  return found;
}

// While it lives, no file grows beyond so many bytes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  sighandler_t handler_;
  rlimit before_{};
};

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

// A writer that is killed leaves part of a line; here while the sink has the file open already.
TEST_F(FileSinkTest, Row5_ALineThatAnotherWriterTearsTakesNoEventWithIt) {
  const auto sink = file_sink({.path = path_});
  std::ofstream(path_) << "{\"id\":";
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sink, {.topic = "a", .payload = "1"}).kind);
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sink, {.topic = "b", .payload = "2"}).kind);
  std::ofstream(path_, std::ios::app) << "{\"id\":\"x\",\"payl";
  sink->submit({.topic = "c", .payload = "3"}, 1);
  sink->submit({.topic = "d", .payload = "4"}, 2);
  std::vector<Outcome> outcomes;
  sink->collect(outcomes, Steady{});
  ASSERT_EQ(2U, outcomes.size());
  EXPECT_THAT(whole_lines(path_, "topic"), UnorderedElementsAre("a", "b", "c", "d"));
}

// The file may grow by half a line only. Another sink appends before the first one tries again.
TEST_F(FileSinkTest, Row5_ALineThatAFullDiskTearsTakesNoEventWithIt) {
  const auto one = file_sink({.path = path_});
  const auto other = file_sink({.path = path_});
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*one, {.topic = "a", .payload = "1"}).kind);
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*other, {.topic = "b", .payload = "2"}).kind);
  {
    const FileSizeLimit full(std::filesystem::file_size(path_) + 20);
    EXPECT_EQ(Outcome::Kind::unavailable, deliver(*one, {.topic = "c", .payload = "3"}).kind);
  }
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*other, {.topic = "d", .payload = "4"}).kind);
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*one, {.topic = "c", .payload = "3"}).kind);
  EXPECT_THAT(whole_lines(path_, "topic"), UnorderedElementsAre("a", "b", "c", "d"));
}

// Dies by SIGXFSZ after so many bytes of its line.
[[noreturn]] void append_and_die(const std::string& path, rlim_t bytes) {
  const auto sink = file_sink({.path = path});
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = std::filesystem::file_size(path) + bytes;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  deliver(*sink, {.seq = 0, .topic = "torn", .payload = "1"});
  ::_exit(1);
}

TEST_F(FileSinkTest, Row5_AWriterThatDiesAtAnyByteOfItsLineLosesNothingOfTheOthers) {
  const std::array sinks{file_sink({.path = path_}), file_sink({.path = path_})};
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sinks[0], {.seq = 100, .topic = "torn", .payload = "1"}).kind);
  const auto length = static_cast<std::int64_t>(std::filesystem::file_size(path_)) - 2;  // Its number has three digits.
  std::vector<std::string> delivered;
  for (std::int64_t bytes = 1; bytes < length; ++bytes) {
    const pid_t writer = ::fork();
    if (writer == 0) append_and_die(path_, static_cast<rlim_t>(bytes));
    int status = 0;
    ::waitpid(writer, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto& sink = sinks.at(static_cast<std::size_t>(bytes) % sinks.size());
    ASSERT_EQ(Outcome::Kind::delivered, deliver(*sink, {.seq = bytes, .topic = "whole", .payload = "2"}).kind);
    delivered.push_back(std::to_string(bytes));
  }
  EXPECT_THAT(whole_lines(path_, "seq"), IsSupersetOf(delivered));
}

TEST_F(FileSinkTest, ARotatedFileIsFollowedByANewOne) {
  const auto sink = file_sink({.path = path_, .fsync = true});
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sink, {.topic = "a", .payload = "1"}).kind);
  std::filesystem::rename(path_, path_ + ".1");
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sink, {.topic = "b", .payload = "2"}).kind);
  EXPECT_THAT(whole_lines(path_ + ".1", "topic"), ElementsAre("a"));
  EXPECT_THAT(whole_lines(path_, "topic"), ElementsAre("b"));
  std::filesystem::remove(path_ + ".1");
}

TEST_F(FileSinkTest, APipeHasOneWriterAndIsAwayWhileNobodyReadsIt) {
  ASSERT_EQ(0, ::mkfifo(path_.c_str(), 0600));
  const auto sink = file_sink({.path = path_});
  const auto other = file_sink({.path = path_});
  EXPECT_THAT(deliver(*sink, {.topic = "a", .payload = "1"}).reason, StartsWith("cannot open"));
  const int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sink, {.topic = "b", .payload = "2"}).kind);
  EXPECT_THAT(deliver(*other, {.topic = "c", .payload = "3"}).reason, StartsWith("cannot write alone"));
  std::array<char, 1000> text{};
  ASSERT_GT(::read(reader, text.data(), text.size()), 2);
  EXPECT_THAT(text.data(), StartsWith("\n{"));  // In case the writer before died inside a line.
  ::close(reader);
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

// The reading end does not block; the writing end, which is the standard output, does.
class StdoutPipeTest : public StdoutSinkTest {
 protected:
  StdoutPipeTest() {
    EXPECT_EQ(0, ::pipe2(pipe_.data(), O_CLOEXEC));
    ::fcntl(pipe_[0], F_SETFL, O_NONBLOCK);
    redirect(pipe_[1]);
  }
  ~StdoutPipeTest() override {
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }

  std::string read() const {
    std::string text;
    std::array<char, 65536> buffer{};
    for (ssize_t count = 0; (count = ::read(pipe_[0], buffer.data(), buffer.size())) > 0;)
      text.append(buffer.data(), static_cast<std::size_t>(count));
    return text;
  }

  std::array<int, 2> pipe_{};
  const std::string large_ = '"' + std::string(300'000, 'x') + '"';  // More than a pipe holds.
};

TEST_F(StdoutPipeTest, Row85_WaitsForAReaderUntilItsDeadline) {
  const auto sink = stdout_sink();
  sink->submit({.topic = "a", .payload = large_}, 1);
  std::vector<Outcome> outcomes;
  sink->collect(outcomes, {});
  EXPECT_TRUE(outcomes.empty());
  sink->submit({.topic = "b", .payload = "2"}, 2);
  std::string text;
  while (outcomes.empty()) {
    text += read();
    sink->collect(outcomes, {});
  }
  text += read();
  ASSERT_EQ(2U, outcomes.size());
  EXPECT_EQ(Outcome::Kind::delivered, outcomes[1].kind);
  EXPECT_EQ(2, std::count(text.begin(), text.end(), '\n'));
}

TEST_F(StdoutPipeTest, ABrokenLineIsEndedFirst) {
  const auto sink = stdout_sink();
  sink->submit({.topic = "a", .payload = large_}, 1);
  std::vector<Outcome> outcomes;
  sink->collect(outcomes, {});
  sink->close({});
  read();
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*sink, {.topic = "b", .payload = "2"}).kind);
  EXPECT_EQ("\n{", read().substr(0, 2));
}

// As after a reload: the sink of the relay that leaves may be inside a line.
TEST_F(StdoutPipeTest, TheNextSinkWaitsUntilTheLastOneIsDone) {
  const auto last = stdout_sink();
  last->submit({.topic = "a", .payload = large_}, 1);
  std::vector<Outcome> outcomes;
  last->collect(outcomes, {});
  const auto next = stdout_sink();
  const Outcome refused = deliver(*next, {.topic = "b", .payload = "2"});
  EXPECT_EQ(Outcome::Kind::unavailable, refused.kind);
  EXPECT_THAT(refused.reason, HasSubstr("another writer has it"));
  last->close({});
  read();
  EXPECT_EQ(Outcome::Kind::delivered, deliver(*next, {.topic = "b", .payload = "2"}).kind);
  EXPECT_EQ("\n{", read().substr(0, 2));
}

}  // namespace
}  // namespace waybill
