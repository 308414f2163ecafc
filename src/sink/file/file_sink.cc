#include "sink/file/file_sink.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/event_json.h"

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

  void collect(std::vector<Outcome>& outcomes, Steady deadline) override {
    if (taken_.empty()) return;
    const auto trouble = write_out(deadline);
    if (!trouble) return;
    const auto kind = trouble->empty() ? Outcome::Kind::delivered : Outcome::Kind::unavailable;
    for (const std::uint64_t ticket : taken_) outcomes.push_back({ticket, kind, *trouble});
    forget();
  }

  Outcome probe(Steady /*deadline*/) override {
    const std::string trouble = open_file();
    return {0, trouble.empty() ? Outcome::Kind::delivered : Outcome::Kind::unavailable, trouble};
  }

  void close(Steady /*deadline*/) override {
    forget();
    close_file();
  }

 private:
  bool is_stdout() const { return options_.path.empty(); }

  // Whoever reads the standard output goes on reading it: it is neither opened nor closed by us.
  void close_file() {
    if (is_stdout() || fd_ < 0) return;
    ::close(fd_);
    fd_ = -1;
  }

  // Drops what is on its way. Where its beginning was written, the file may end inside a line; or still does.
  void forget() {
    if (written_ < buffer_.size())
      broken_line_ = written_ > 0 ? buffer_[written_ - 1] != '\n' : broken_line_ || buffer_.front() == '\n';
    written_ = 0;
    buffer_.clear();
    taken_.clear();
  }

  // Returns what went wrong; nothing if nothing did.
  std::string open_file() {
    if (fd_ >= 0) return {};
    fd_ = ::open(options_.path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (fd_ < 0) return trouble("open");
    broken_line_ = ends_inside_a_line().value_or(broken_line_);
    if (!options_.fsync || sync_folder()) return {};
    return give_up("sync the folder of");
  }

  // Whoever wrote to it before us may have died while he did. None: it is no file that can be read.
  std::optional<bool> ends_inside_a_line() const {
    struct stat status {};
    if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    if (status.st_size == 0) return false;
    const int fd = ::open(options_.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return std::nullopt;
    char last = '\n';
    const bool read = ::pread(fd, &last, 1, status.st_size - 1) == 1;
    ::close(fd);
    return read ? std::optional(last != '\n') : std::nullopt;
  }

  // A new file is on disk only when its name is.
  bool sync_folder() const {
    const auto folder = std::filesystem::path(options_.path).parent_path();
    const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool good = ::fsync(fd) == 0;
    const int error = errno;
    ::close(fd);
    errno = error;
    return good;
  }

  // What went wrong, empty if all is written; none if at `deadline` whoever reads has not taken all of it yet.
  std::optional<std::string> write_out(Steady deadline) {
    if (auto failed = open_file(); !failed.empty()) return failed;
    if (std::exchange(broken_line_, false)) buffer_.insert(buffer_.begin(), '\n');
    while (written_ < buffer_.size()) {
      const ssize_t count = ::write(fd_, buffer_.data() + written_, buffer_.size() - written_);
      if (count >= 0) {
        written_ += static_cast<std::size_t>(count);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!wait_until_writable(deadline)) return std::nullopt;
      } else if (errno != EINTR) {
        return give_up("write to");
      }
    }
    if (options_.fsync && ::fdatasync(fd_) != 0) return give_up("sync");
    return std::string();
  }

  bool wait_until_writable(Steady deadline) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - system_clock().steady());
    pollfd waiting{.fd = fd_, .events = POLLOUT, .revents = 0};
    return ::poll(&waiting, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000))) > 0;
  }

  std::string give_up(std::string_view verb) {
    std::string failed = trouble(verb);
    close_file();
    return failed;
  }

  std::string trouble(std::string_view verb) const {
    return fmt::format("cannot {} {}: {}", verb, is_stdout() ? "the standard output" : options_.path,
                       std::strerror(errno));
  }

  const FileSinkOptions options_;
  int fd_;
  bool broken_line_ = false;  // What was written last ends inside a line.
  std::string buffer_;
  std::size_t written_ = 0;  // of the buffer
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
