#include "sink/file/file_sink.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  FileSinkTest() : path_(testing::TempDir() + "/file_sink_test.jsonl") { std::filesystem::remove(path_); }
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

}  // namespace
}  // namespace waybill
