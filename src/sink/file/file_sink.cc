#include "sink/file/file_sink.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "model/envelope.h"

namespace waybill {
namespace {

class FileSink final : public Sink {
 public:
  FileSink(FileSinkOptions options, int fd) : options_(std::move(options)), fd_(fd) {}
  ~FileSink() override { close({}); }

  void submit(const EventView& event, std::uint64_t ticket) override {
    append_event_json(buffer_, event);
    buffer_ += '\n';
    taken_.push_back(ticket);
  }

  void collect(std::vector<Outcome>& outcomes, Steady /*deadline*/) override {
    if (taken_.empty()) return;
    const std::string trouble = write_out();
    const auto kind = trouble.empty() ? Outcome::Kind::delivered : Outcome::Kind::unavailable;
    for (const std::uint64_t ticket : taken_) outcomes.push_back({ticket, kind, trouble});
    taken_.clear();
    buffer_.clear();
  }

  Outcome probe(Steady /*deadline*/) override {
    const std::string trouble = open_file();
    return {0, trouble.empty() ? Outcome::Kind::delivered : Outcome::Kind::unavailable, trouble};
  }

  void close(Steady /*deadline*/) override {
    if (fd_ >= 0 && !options_.path.empty()) ::close(fd_);
    fd_ = -1;
  }

 private:
  // Each returns what went wrong; nothing if nothing did.
  std::string open_file() {
    if (fd_ >= 0) return {};
    fd_ = ::open(options_.path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    return fd_ >= 0 ? std::string() : trouble("open");
  }

  std::string write_out() {
    if (auto failed = open_file(); !failed.empty()) return failed;
    if (broken_line_) buffer_.insert(buffer_.begin(), '\n');
    std::size_t written = 0;
    while (written < buffer_.size()) {
      const ssize_t count = ::write(fd_, buffer_.data() + written, buffer_.size() - written);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        const std::string failed = trouble("write to");
        if (written > 0) broken_line_ = true;
        close({});
        return failed;
      }
      written += static_cast<std::size_t>(count);
    }
    broken_line_ = false;
    if (options_.fsync && ::fdatasync(fd_) != 0) return trouble("sync");
    return {};
  }

  std::string trouble(std::string_view verb) const {
    return fmt::format("cannot {} {}: {}", verb,
                       options_.path.empty() ? "the standard output" : options_.path, std::strerror(errno));
  }

  const FileSinkOptions options_;
  int fd_;
  bool broken_line_ = false;
  std::string buffer_;
  std::vector<std::uint64_t> taken_;
};

}  // namespace

std::unique_ptr<Sink> file_sink(FileSinkOptions options) {
  return std::make_unique<FileSink>(std::move(options), -1);
}

std::unique_ptr<Sink> stdout_sink() {
  return std::make_unique<FileSink>(FileSinkOptions{}, STDOUT_FILENO);
}

}  // namespace waybill
