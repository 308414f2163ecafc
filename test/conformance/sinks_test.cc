// The sinks that need no server.
#include <filesystem>
#include <fstream>

#include <signal.h>
#include <sys/resource.h>

#include "conformance/sink_suite.h"
#include "sink/file/file_sink.h"
#include "sink/null/null_sink.h"
#include "support/child_process.h"

namespace waybill {
namespace {

std::string from_base64(std::string_view text) {
  static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned int value = 0;
  int bits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    value = (value << 6U) | static_cast<unsigned int>(digits.find(c));
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>((value >> static_cast<unsigned int>(bits)) & 0xFFU);
  }
  return bytes;
}

class FileUnderTest final : public SinkUnderTest {
 public:
  FileUnderTest() { ::signal(SIGXFSZ, SIG_IGN); }
  ~FileUnderTest() override { limit_files(RLIM_INFINITY); }

  std::unique_ptr<Sink> make() override { return file_sink({.path = path_, .fsync = true}); }

  std::vector<Arrival> arrivals() override {
    std::vector<Arrival> found;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) found.push_back({line.substr(7, 36), body_of(line)});
    return found;
  }

  bool can_be(Condition condition) const override {
    return condition == Condition::there || condition == Condition::away;
  }

  // The file is as large as a file can be: a hole behind its end, which goes again.
  void become(Condition condition) override {
    namespace fs = std::filesystem;
    if (condition == Condition::away) {
      if (!fs::exists(path_)) std::ofstream{path_};
      size_ = fs::file_size(path_);
      fs::resize_file(path_, largest);
      limit_files(largest);
    } else {
      limit_files(RLIM_INFINITY);
      fs::resize_file(path_, size_);
    }
  }

  // It looks no further than whether the file can be opened.
  bool probes() const override { return false; }

 private:
  static constexpr std::uintmax_t largest = std::uintmax_t{1} << 33U;

  static void limit_files(rlim_t bytes) {
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = std::min(bytes, limit.rlim_max);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }

  static std::string body_of(std::string_view line) {
    static constexpr std::string_view json = R"(,"payload":)";
    static constexpr std::string_view base64 = R"(,"payload_base64":")";
    if (const auto begin = line.find(json); begin != std::string::npos)
      return std::string(line.substr(begin + json.size(), line.size() - begin - json.size() - 1));
    const auto begin = line.find(base64) + base64.size();
    return from_base64(line.substr(begin, line.size() - begin - 2));
  }

  TmpFolder folder_;
  const std::string path_ = folder_.path() + "/events.jsonl";
  std::uintmax_t size_ = 0;
};

// An application's function.
class CallUnderTest final : public SinkUnderTest {
 public:
  std::unique_ptr<Sink> make() override {
    return sink_from([this](const EventView& event) {
      if (away_) return Outcome::Kind::unavailable;
      arrivals_.push_back({event.id.to_string(), std::string(event.payload)});
      return Outcome::Kind::delivered;
    });
  }
  std::vector<Arrival> arrivals() override { return arrivals_; }
  bool can_be(Condition condition) const override {
    return condition == Condition::there || condition == Condition::away;
  }
  void become(Condition condition) override { away_ = condition == Condition::away; }
  bool probes() const override { return false; }

 private:
  bool away_ = false;
  std::vector<Arrival> arrivals_;
};

class NullUnderTest final : public SinkUnderTest {
 public:
  std::unique_ptr<Sink> make() override { return null_sink(); }
  std::vector<Arrival> arrivals() override { return {}; }
  bool keeps_arrivals() const override { return false; }
  bool can_be(Condition condition) const override { return condition == Condition::there; }
  void become(Condition /*condition*/) override {}
};

INSTANTIATE_TEST_SUITE_P(File, SinkSuite, every_sink_check("file", [] { return std::make_unique<FileUnderTest>(); }),
                         sink_check_name);
INSTANTIATE_TEST_SUITE_P(Call, SinkSuite, every_sink_check("call", [] { return std::make_unique<CallUnderTest>(); }),
                         sink_check_name);
INSTANTIATE_TEST_SUITE_P(Null, SinkSuite, every_sink_check("null", [] { return std::make_unique<NullUnderTest>(); }),
                         sink_check_name);

}  // namespace
}  // namespace waybill
